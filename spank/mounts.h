#ifndef GRESNET_MOUNTS_H
#define GRESNET_MOUNTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

/* A line of /proc/self/mountinfo, as far as it is needed: proc(5). */
struct mounted {
	int id;
	int parent;
	char root[PATH_MAX]; /* what of the file system is mounted */
	char at[PATH_MAX];
};

/* mounts_next reads the next line. It returns false at the end, and where a line
 * has another form: feof(3) tells which. */
bool mounts_next(FILE *mountinfo, struct mounted *m);

#endif
