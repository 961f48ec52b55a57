/* gresnet's SPANK plugin: a task of a job that holds a lease starts in the
 * job's network namespace and sees the job's HCAs only.
 *
 * Only the task's own process enters, in the one callback that is root, has one
 * thread, and comes after Slurm's own containers are joined. slurmstepd stays
 * where it is, or srun's input and output and the MPI server would lose their
 * network; so do, unless plugstack.conf says otherwise, the batch script and the
 * interactive step, from which srun must reach the controller.
 *
 * It is the task that fails, whatever went wrong before: of a step that does not
 * begin, 22.05's srun says nothing and exits with 0. A task that may not run is
 * shut in, and ends in the next callback. Slurm has nothing to add to that; of a
 * callback that fails it tells the user in three lines more. Where a callback does
 * fail, it returns -1: Slurm 22.05 lets a task run on after a positive number
 * (slurmstepd/mgr.c:_pre_task_child_privileged tests for < 0). */
#include <errno.h>
#include <net/if.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "absent.h"
#include "arguments.h"
#include "enter.h"
#include "export.h"
#include "forget.h"
#include "guard.h"
#include "lease.h"
#include "limit.h"
#include "pmix.h"
#include "record.h"
#include "variables.h"
#include "x11.h"

SPANK_PLUGIN(gresnet, 1)

#define NOTICE                                                                                            \
	"gresnet: this job's HCAs are inside its srun steps, and this script is not: "                    \
	"start programs that use RDMA with srun\n"

/* What the callbacks of one process have in common. Slurm gives a plugin no
 * place of its own for it. A task's process begins with slurmstepd's. */
static struct {
	struct arguments arguments;
	enum { OPTION_UNUSED, OPTION_NONE, OPTION_UNKNOWN } option; /* --gresnet */
	struct step step;
	bool broken; /* no task may run; the reason is logged */

	struct pmix_ports *ports; /* NULL where nothing is relayed */
	pid_t pid;                /* slurmstepd's */
	bool served;              /* the step's first task has been forked */
	struct relay *relay;
	struct relay *display;

	char if_no_lease[RECORD_ERROR]; /* the error of a task that finds no lease; empty: its job need not have one */
	char notice[2048]; /* why the job has fewer HCAs than it could expect; empty if it has not */

	bool refused; /* this task may not run; the reason is logged */
	bool entered; /* this task is in a network of its job's own */
	bool notify;  /* this task is to be told that it stays outside of that */
} context;

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

/* take_option keeps what slurmstepd was given until there is a task that can
 * fail of it; Slurm 22.05 goes on whatever this returns there. */
static int take_option(int val, const char *value, int remote)
{
	(void)val;
	/* A client of the user's own may send it without a value. */
	context.option = value && !strcmp(value, "none") ? OPTION_NONE : OPTION_UNKNOWN;
	if (context.option == OPTION_NONE || remote)
		return 0;
	slurm_error("gresnet: --gresnet=%s: unknown value; hint: the only value is none [GN041]", value ? value : "");
	return -1;
}

static int register_option(spank_t spank)
{
	struct spank_option option = {
		.name = "gresnet",
		.arginfo = "none",
		.usage = "run in the node's network without RDMA devices, where the node allows it",
		.has_arg = 1,
		.cb = take_option,
	};

	if (spank_option_register(spank, &option) == ESPANK_SUCCESS)
		return 0;
	slurm_error("gresnet: register the option --gresnet");
	return -1;
}

static int prepare_step(spank_t spank, int argc, char *argv[])
{
	if (read_step(spank, &context.step) || arguments_read(&context.arguments, argc, argv))
		return -1;
	/* The MPI servers are those of srun's steps. */
	if (context.arguments.relay && context.step.id <= SLURM_MAX_NORMAL_STEP_ID) {
		context.ports = pmix_share();
		if (!context.ports)
			return -1;
	}
	return register_option(spank);
}

/* begin_step marks the lease in the job's extern step, and limits the job there; or
 * in its other steps, where there is no extern step, or it begins before the prolog
 * (PrologFlags=RunInJob, Slurm 24.11). A mark that cannot be made is logged: it is a
 * cleanup's loss, and none of the job's; so is a limit, which is the other jobs' loss. A batch job that
 * does not begin is held, and drains the node, whose fault it is; other jobs
 * would only come to the same end. */
static int begin_step(spank_t spank, int argc, char *argv[])
{
	context.pid = getpid();
	context.broken = prepare_step(spank, argc, argv);
	if (context.broken)
		return context.step.id == SLURM_BATCH_SCRIPT ? -1 : 0;
	if (context.step.id != SLURM_EXTERN_CONT && context.arguments.notice)
		lease_notice(context.arguments.state, context.step.job, context.notice, sizeof(context.notice));
	if (context.step.id == SLURM_EXTERN_CONT)
		lease_mark(context.arguments.state, context.step.job);
	else
		absent_judge(context.arguments.state, &context.step, context.if_no_lease, sizeof(context.if_no_lease));
	if (context.step.id == SLURM_EXTERN_CONT || !lease_marked(context.arguments.state, context.step.job))
		limit_set(context.arguments.state, &context.step);
	return 0;
}

/* slurm_spank_init checks the arguments where they matter, on nodes: a mistake
 * keeps tasks from running, but neither slurmd nor, on a login node, srun. */
int slurm_spank_init(spank_t spank, int argc, char *argv[])
{
	memset(&context, 0, sizeof(context));
	switch (spank_context()) {
	case S_CTX_REMOTE:
		return begin_step(spank, argc, argv);
	case S_CTX_SLURMD:
		arguments_read(&context.arguments, argc, argv);
		return 0;
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
		return register_option(spank);
	default:
		return 0;
	}
}

/* is_first tells whether the task is the step's first one on the node, which says
 * what holds for all of them. */
static bool is_first(spank_t spank)
{
	int task;

	return spank_get_item(spank, S_TASK_ID, &task) || task == 0;
}

/* check_step refuses the step's tasks if the plugin is not set up, or if their user asks
 * for what is not to be had. */
static int check_step(void)
{
	if (context.broken) {
		/* What was logged before there are tasks does not come to srun. */
		if (context.step.speaks)
			slurm_error("gresnet: job %u: the plugin is not set up on this node; "
				    "hint: slurmd's log has the reason [GN044]", context.step.job);
		return -1;
	}
	if (context.option == OPTION_UNKNOWN) {
		if (context.step.speaks)
			slurm_error("gresnet: job %u: --gresnet: unknown value; hint: the only value is none [GN042]",
				    context.step.job);
		return -1;
	}
	if (context.option == OPTION_NONE && !context.arguments.allow_none) {
		if (context.step.speaks)
			slurm_error("gresnet: job %u: --gresnet=none is not allowed on this node; "
				    "hint: allow=none in plugstack.conf allows it [GN043]", context.step.job);
		return -1;
	}
	return 0;
}

/* is_single tells whether the job has one node. Slurm says so in a batch script's
 * environment alone: slurmstepd takes its own node for all of a batch step. It is the
 * user's word, too, who may have the script inside or outside. */
static bool is_single(spank_t spank)
{
	char nodes[sizeof("4294967295")];

	return !spank_getenv(spank, "SLURM_JOB_NUM_NODES", nodes, sizeof(nodes)) && !strcmp(nodes, "1");
}

static int go_inside(spank_t spank, const struct lease *lease)
{
	const struct environment environment = {variables_set, spank};

	if ((context.ports && pmix_forget(spank, context.step.job)) || guard_allow(lease, &context.step) ||
	    enter(lease, context.arguments.state) || export_variables(&environment, lease))
		return -1;
	context.entered = lease_has_network(lease);
	return 0;
}

/* go_without leaves a task without a lease in the node's network, unless its job should have one, or
 * had one when the step began. */
static int go_without(struct about job)
{
	if (!*context.if_no_lease || !arguments_enter(&context.arguments, context.step.id, job))
		return 0;
	if (context.step.speaks)
		slurm_error("%s", context.if_no_lease);
	return -1;
}

/* join puts the task where its job is. What is wrong with the lease is logged, into the
 * job's output, too; it fails all tasks but the scripts that stay outside. */
static int join(spank_t spank)
{
	struct about job = {.single = is_single(spank), .srun = true};
	struct lease lease;
	int rc = 0;

	switch (lease_open(&lease, context.arguments.state, &context.step)) {
	case LEASE_NONE:
		return go_without(job);
	case LEASE_BROKEN:
		/* Nobody can say what a whole lease would have said. */
		return arguments_enter(&context.arguments, context.step.id, job) ? -1 : 0;
	case LEASE_HELD:
		job.srun = lease_has_srun(&lease);
		/* In the node's network a script reaches the controller wherever it is. */
		if (arguments_enter(&context.arguments, context.step.id, job) || !lease_has_network(&lease))
			rc = go_inside(spank, &lease);
		else
			context.notify = context.arguments.notice;
		lease_close(&lease);
	}
	return rc;
}

/* admit puts the task where it is to run, or refuses it, with the reason logged. */
static int admit(spank_t spank)
{
	context.step.speaks = is_first(spank);
	if (check_step() || forget_exports(spank, context.step.job))
		return -1;
	if (context.option == OPTION_NONE)
		return enter_without(context.step.job);
	if (context.step.id == SLURM_EXTERN_CONT)
		return 0;
	return join(spank);
}

/* slurm_spank_task_init_privileged shuts a task in that may not run, so that whatever comes
 * before slurm_spank_task_init ends it, other plugins' callbacks say, has no network and no HCA. */
int slurm_spank_task_init_privileged(spank_t spank, int argc, char *argv[])
{
	(void)argc, (void)argv;
	context.refused = admit(spank) != 0;
	return context.refused ? shut_in(context.step.job) : 0;
}

/* slurm_spank_task_post_fork is called in slurmstepd, for each task, while all
 * of them wait: what is made for the first is there before any runs. */
int slurm_spank_task_post_fork(spank_t spank, int argc, char *argv[])
{
	uint32_t tasks;

	(void)argc, (void)argv;
	if (context.broken || context.served || context.option != OPTION_UNUSED || context.step.id == SLURM_EXTERN_CONT)
		return 0;
	context.served = true;
	if (context.ports && spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks)) {
		slurm_error("gresnet: job %u: ask Slurm for the step's tasks", context.step.job);
		context.ports->failed = true;
		return 0;
	}
	if (context.ports)
		context.relay = pmix_serve(&context.step, context.arguments.state, context.pid, tasks, context.ports);
	/* This makes one more listener on a loopback, among which PMIx's was sought. */
	context.display = x11_serve(spank, &context.step, context.arguments.state, context.pid);
	return 0;
}

/* tell_notice has the step's first task on the node say why its job has fewer HCAs than
 * it could expect. What cannot be written is not missed. */
static void tell_notice(void)
{
	if (*context.notice && context.option == OPTION_UNUSED && context.step.speaks)
		dprintf(STDERR_FILENO, "gresnet: %s", context.notice);
}

/* tell_lost has the step's first task name the interfaces that its job no longer has: a driver that begins
 * again, after a fault of the firmware say, makes them again on the node. A step may need none of them. */
static void tell_lost(spank_t spank)
{
	char names[ENV_VALUE_MAX + 1];
	char *rest = names, *name;

	if (!context.step.speaks || spank_getenv(spank, "GRESNET_INTERFACES", names, sizeof(names)))
		return;
	while ((name = strsep(&rest, ",")))
		if (*name && !if_nametoindex(name) && errno == ENODEV)
			dprintf(STDERR_FILENO,
				"gresnet: job %u no longer has %s: its driver made it again on the node, or it is gone; "
				"hint: submit the job again [GN871]\n", context.step.job, name);
}

/* reach_servers lets a task that is in its job's network reach the step's MPI servers. */
static int reach_servers(spank_t spank)
{
	if (context.ports && pmix_redirect(spank, &context.step, context.ports))
		return -1;
	return pmix_close_listeners(context.step.job);
}

/* name_launcher tells a task where srun is. The slurmd of a job's own node knows an srun that is in
 * the job by the job's address on the node, which nobody reaches in the job. */
static int name_launcher(spank_t spank)
{
	static const char *const names[] = {"SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"};
	char uplink[64], own[64], has[64];

	if (spank_getenv(spank, "GRESNET_UPLINK", uplink, sizeof(uplink)) ||
	    spank_getenv(spank, "GRESNET_ADDRESS", own, sizeof(own)))
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (spank_getenv(spank, names[i], has, sizeof(has)) || strcmp(has, uplink))
			continue;
		if (spank_setenv(spank, names[i], own, 1)) {
			slurm_error("gresnet: job %u: set %s", context.step.job, names[i]);
			return -1;
		}
	}
	return 0;
}

/* slurm_spank_task_init is called in the task, as the user, when Slurm has set
 * all of its environment and connected its output. */
int slurm_spank_task_init(spank_t spank, int argc, char *argv[])
{
	(void)argc, (void)argv;
	if (context.refused)
		_exit(EXIT_FAILURE);
	if (context.notify)
		/* What cannot be written is not missed. */
		dprintf(STDERR_FILENO, "%s", NOTICE);
	tell_notice();
	if (context.entered)
		tell_lost(spank);
	if (context.entered && (name_launcher(spank) || reach_servers(spank)))
		_exit(EXIT_FAILURE);
	return 0;
}

/* slurm_spank_exit: the thread must not outlive the code that it runs, and Slurm
 * unloads the plugin next. */
int slurm_spank_exit(spank_t spank, int argc, char *argv[])
{
	(void)spank, (void)argc, (void)argv;
	if (context.pid == getpid()) {
		relay_stop(context.relay);
		relay_stop(context.display);
	}
	context.relay = context.display = NULL;
	return 0;
}
