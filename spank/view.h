#ifndef GRESNET_VIEW_H
#define GRESNET_VIEW_H

#include "lease.h"

/* make puts the calling process into a mount namespace of its own, with the job's mounts in it. */
typedef int view_maker(const struct lease *lease, const char *state);

/* view_enter puts the calling process, which must have one thread, into the mount namespace
 * that the job's tasks have together: one that another task has made, or where none lives any
 * more, one that make makes. Where it cannot be shared, which is logged, the process gets one of
 * its own. It returns -1, with the reason logged, if make fails, or if the process is nowhere
 * certain; it must not go on then. The working directory is / in a namespace of another task's. */
int view_enter(const struct lease *lease, const char *state, view_maker *make);

#endif
