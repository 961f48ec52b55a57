#include "mounts.h"

bool mounts_next(FILE *mountinfo, struct mounted *m)
{
	return fscanf(mountinfo, "%d %d %*s %4095s %4095s%*[^\n]", &m->id, &m->parent, m->root, m->at) == 4;
}
