#ifndef GRESNET_EXPORT_H
#define GRESNET_EXPORT_H

#include <slurm/spank.h>

#include "lease.h"

/* export_forget unsets what a plugin gave the process that started this task, be it
 * on another node or in another job: HCAs that are not this task's. What the user
 * changed since stays. It returns -1 with the reason logged. */
int export_forget(spank_t spank, uint32_t job);

/* export_variables sets the lease's variables in the task's environment. It
 * returns -1 with the reason logged. */
int export_variables(spank_t spank, const struct lease *lease);

#endif
