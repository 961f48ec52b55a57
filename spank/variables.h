#ifndef GRESNET_VARIABLES_H
#define GRESNET_VARIABLES_H

#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>

#include "export.h"

/* variables_forget calls forget for each line NAME=VALUE of the calling task's
 * environment that is one of those meant, until there is none: forget must unset it.
 * It returns -1 with the reason logged. */
int variables_forget(spank_t spank, uint32_t job, bool (*is_meant)(const char *variable),
		     int (*forget)(spank_t spank, uint32_t job, char **env, const char *variable));

/* variables_set sets a variable of the calling task: struct environment. */
enum setting variables_set(void *spank, uint32_t job, const struct variable *v, bool overwrite);

#endif
