#ifndef GRESNET_X11_H
#define GRESNET_X11_H

#include <slurm/spank.h>
#include <sys/types.h>

#include "lease.h"
#include "relay.h"

/* x11_serve relays the display of srun --x11 into the step's job, if the step has one
 * and its job a lease with a network. Tasks run without it if it cannot: the reason is
 * logged. It is for the process slurmstepd, which lives as long as the step. It returns
 * the relay or NULL. */
struct relay *x11_serve(spank_t spank, const struct step *step, const char *state, pid_t slurmstepd);

#endif
