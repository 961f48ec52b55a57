#ifndef GRESNET_FORGET_H
#define GRESNET_FORGET_H

#include <slurm/spank.h>
#include <stdint.h>

/* forget_exports unsets what a plugin gave the process that started this task, be it
 * on another node or in another job: HCAs that are not this task's. What the user
 * changed since stays. It returns -1 with the reason logged. */
int forget_exports(spank_t spank, uint32_t job);

#endif
