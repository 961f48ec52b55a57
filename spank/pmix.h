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
	_Atomic in_port_t relay;  /* on the job's; 0: nothing is relayed */
	atomic_bool failed;       /* tasks must not run; the reason is logged */
};

/* pmix_share makes the page, in slurmstepd before it forks. NULL, with the
 * reason logged, if it cannot. */
struct pmix_ports *pmix_share(void);

/* pmix_serve relays the step's PMIx server, if it has one and its job a lease,
 * into the lease's network namespace, for a number of tasks, and fills ports; if
 * it cannot, the reason is logged, and the tasks' pmix_redirect fails. It is for
 * the process slurmstepd, which lives as long as the step. It returns the relay
 * or NULL. */
struct relay *pmix_serve(const struct step *step, const char *state, pid_t slurmstepd, uint32_t tasks,
			 struct pmix_ports *ports);

/* pmix_forget takes out of the calling task's environment what somebody else's PMIx
 * client knows its server by: a job that is submitted in an MPI program has the
 * program's. Slurm sets the step's own later (task.c:exec_task, between task_init_privileged
 * and task_init, in 22.05, 24.11 and 26.05). It returns -1 with the reason logged. */
int pmix_forget(spank_t spank, uint32_t job);

/* pmix_redirect has the calling task look for its server at the relay's port.
 * It returns -1 with the reason logged. */
int pmix_redirect(spank_t spank, const struct step *step, const struct pmix_ports *ports);

/* pmix_close_listeners keeps from the program that the task is about to execute
 * the sockets that slurmstepd listens on. It returns -1 with the reason logged. */
int pmix_close_listeners(uint32_t job);

#endif
