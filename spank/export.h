#ifndef GRESNET_EXPORT_H
#define GRESNET_EXPORT_H

#include <slurm/spank.h>

#include "lease.h"

/* export_variables sets the lease's variables in the task's environment. It
 * returns -1 with the reason logged. */
int export_variables(spank_t spank, const struct lease *lease);

#endif
