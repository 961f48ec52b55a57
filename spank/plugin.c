/* gresnet's SPANK plugin: a task of a job that holds a lease starts in the
 * job's network namespace and sees the job's HCAs only.
 *
 * Only the task's own process enters, in the one callback that is root, has one
 * thread, and comes after Slurm's own containers are joined. slurmstepd stays
 * where it is, or srun's input and output and the MPI server would lose their
 * network; so do the batch script, the interactive and the extern step, from
 * which srun must reach the controller.
 *
 * A failure is -1 and nothing else: Slurm 22.05 lets a task run on after a
 * positive one (slurmstepd/mgr.c:_pre_task_child_privileged tests for < 0). */
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <string.h>

#include "enter.h"
#include "lease.h"

SPANK_PLUGIN(gresnet, 1)

#define STATE "state="

/* state_dir is where the leases are: plugstack.conf's state=DIR, or the
 * default. NULL, with the reason logged, if the line has anything else. */
static const char *state_dir(int argc, char *argv[])
{
	const char *state = "/run/gresnet";

	for (int i = 0; i < argc; i++) {
		if (strncmp(argv[i], STATE "/", strlen(STATE "/"))) {
			slurm_error("gresnet: plugstack.conf: unknown argument %s; "
				    "hint: there is only " STATE "DIR, an absolute path", argv[i]);
			return NULL;
		}
		state = argv[i] + strlen(STATE);
	}
	return state;
}

static int read_step(spank_t spank, struct step *step)
{
	spank_err_t err;

	if ((err = spank_get_item(spank, S_JOB_ID, &step->job)) ||
	    (err = spank_get_item(spank, S_JOB_STEPID, &step->id)) ||
	    (err = spank_get_item(spank, S_JOB_UID, &step->uid))) {
		slurm_error("gresnet: ask Slurm for the step's job, id and user: %s", spank_strerror(err));
		return -1;
	}
	if (spank_get_item(spank, S_SLURM_RESTART_COUNT, &step->restarts))
		step->restarts = 0;
	return 0;
}

/* begin_step checks the arguments where they matter, on nodes, and marks the
 * lease in the job's extern step. A mark that cannot be made is logged: it is a
 * sweep's loss, and none of the job's. */
static int begin_step(spank_t spank, const char *state)
{
	struct step step;

	if (!state || read_step(spank, &step))
		return -1;
	if (step.id == SLURM_EXTERN_CONT)
		lease_mark(state, step.job);
	return 0;
}

/* slurm_spank_init: a mistake in plugstack.conf keeps steps from starting, but
 * neither slurmd nor, on a login node, srun. */
int slurm_spank_init(spank_t spank, int argc, char *argv[])
{
	switch (spank_context()) {
	case S_CTX_REMOTE:
		return begin_step(spank, state_dir(argc, argv));
	case S_CTX_SLURMD:
		state_dir(argc, argv);
		return 0;
	default:
		return 0;
	}
}

/* must_be_true tells what the task cannot be told otherwise. Of everything
 * else what the user set stays. */
static bool must_be_true(const char *name)
{
	return !strncmp(name, "GRESNET_", strlen("GRESNET_")) || !strcmp(name, "MELLANOX_VISIBLE_DEVICES");
}

static int set(spank_t spank, const struct lease *lease, const struct variable *v)
{
	spank_err_t err = spank_setenv(spank, v->name, v->value, must_be_true(v->name));

	if (err == ESPANK_SUCCESS || (err == ESPANK_ENV_EXISTS && !must_be_true(v->name)))
		return 0;
	slurm_error("gresnet: job %u: set %s: %s", lease->job, v->name, spank_strerror(err));
	return -1;
}

static int export_variables(spank_t spank, const struct lease *lease)
{
	if (set(spank, lease, &lease->line[LINE_JOB]))
		return -1;
	for (size_t i = HEAD_LINES; i < lease->lines; i++)
		if (set(spank, lease, &lease->line[i]))
			return -1;
	return 0;
}

int slurm_spank_task_init_privileged(spank_t spank, int argc, char *argv[])
{
	struct step step;
	struct lease lease;
	int rc = -1;
	const char *state = state_dir(argc, argv);

	if (!state || read_step(spank, &step))
		return -1;
	if (step.id > SLURM_MAX_NORMAL_STEP_ID)
		return 0;
	switch (lease_open(&lease, state, &step)) {
	case LEASE_NONE:
		return 0;
	case LEASE_BROKEN:
		return -1;
	case LEASE_HELD:
		if (!enter(&lease, state) && !export_variables(spank, &lease))
			rc = 0;
		lease_close(&lease);
	}
	return rc;
}
