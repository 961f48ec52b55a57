#ifndef GRESNET_PMIX_H
#define GRESNET_PMIX_H

#include <slurm/spank.h>
#include <stdatomic.h>

#include "lease.h"
#include "relay.h"

/* Where PMIx is: what slurmstepd finds out when its tasks' processes are there
 * already, on a page that they share. */
struct pmix_ports {
	_Atomic in_port_t server; /* on the node's loopback; 0: there is none */
	_Atomic in_port_t relay;  /* on the job's */
};

/* pmix_share makes the page, in slurmstepd before it forks. NULL, with the
 * reason logged, if it cannot. */
struct pmix_ports *pmix_share(void);

/* pmix_serve relays the step's PMIx server, if it has one, into the lease's
 * network namespace, for a number of tasks, and fills ports. It is for the
 * process slurmstepd, which lives as long as the step. Where there is no server
 * *relay is NULL. It returns -1 with the reason logged. */
int pmix_serve(const struct lease *lease, pid_t slurmstepd, uint32_t tasks, struct pmix_ports *ports,
	       struct relay **relay);

/* pmix_redirect has the calling task look for its server at the relay's port.
 * It returns -1 with the reason logged. */
int pmix_redirect(spank_t spank, const struct step *step, const struct pmix_ports *ports);

/* pmix_close_listeners keeps from the program that the task is about to execute
 * the sockets that slurmstepd listens on. It returns -1 with the reason logged. */
int pmix_close_listeners(uint32_t job);

#endif
