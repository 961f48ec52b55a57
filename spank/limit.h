#ifndef GRESNET_LIMIT_H
#define GRESNET_LIMIT_H

#include "lease.h"

/* limit_set gives the cgroup of a job the limits of its lease, in the job's
 * extern step. Returns 0, also where there are none, or -1 with the reason
 * logged. */
int limit_set(const char *state, const struct step *step);

#endif
