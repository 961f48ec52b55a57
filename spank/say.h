#ifndef GRESNET_SAY_H
#define GRESNET_SAY_H

#include <security/pam_modules.h>
#include <stdbool.h>

/* say_to has slurm_error and slurm_info say what is wrong in the system's log and, unless
 * that is not wanted, to the user of a session. NULL: there is none any more. */
void say_to(pam_handle_t *pamh, bool silent);

#endif
