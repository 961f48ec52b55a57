#ifndef GRESNET_ENTER_H
#define GRESNET_ENTER_H

#include "lease.h"

/* enter moves the calling process, which must have one thread, into the
 * lease's network namespace and the mount namespace of the job's tasks, in which /sys and
 * /dev/infiniband are the job's. A job that is in the node's network keeps that,
 * and the node's /sys. After a failure, which is logged, the process
 * may be half inside and must not go on. */
int enter(const struct lease *lease, const char *state);

/* enter_without leaves the calling process in the node's network, with nothing
 * in /dev/infiniband. */
int enter_without(uint32_t job);

/* shut_in leaves the calling process in a network namespace of nobody's, with nothing
 * in /dev/infiniband, wherever it is: half inside, say. */
int shut_in(uint32_t job);

#endif
