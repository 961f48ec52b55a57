#ifndef GRESNET_NAMES_H
#define GRESNET_NAMES_H

#include <stdint.h>

/* names_cover puts the files by which a job resolves names, of
 * those that the lease's directory has, over the node's, in this process's mount
 * namespace. It returns 0, or -1 with the reason logged. */
int names_cover(uint32_t job, int dir);

#endif
