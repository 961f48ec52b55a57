#ifndef GRESNET_GUARD_H
#define GRESNET_GUARD_H

#include "lease.h"

/* guard_allow lets the processes of the job, by its cgroup, open those of the
 * lease's devices that gresnet-prolog guards, in a process of one of its steps.
 * Returns 0, also where nothing is guarded, or -1 with the reason logged. */
int guard_allow(const struct lease *lease, const struct step *step);

#endif
