#ifndef GRESNET_TEST_SLURM_H
#define GRESNET_TEST_SLURM_H

#include <slurm/spank.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* What stands in for slurmstepd: it answers the plugin and keeps what it says. */
struct slurm {
	spank_context_t context;
	uint32_t job;
	uint32_t step;
	uint32_t restarts;
	uid_t uid;
	int task;                   /* the task's number on this node */
	uint32_t tasks;             /* of the step, on this node */
	spank_err_t restarts_error; /* what asking for the restart count gives */
	spank_err_t tasks_error;    /* what asking for the tasks gives */
	const char *gres;           /* what slurmctld says that the job has on this node; NULL: it does not answer */
	time_t started;             /* when it says that the job started */
	uint32_t state;             /* and which state it is in */
	unsigned asked;             /* how often it was asked */
	struct spank_option option; /* the one that the plugin registered */
	char said[4096];            /* every slurm_error, a line each */
	struct {
		char name[128];
		char value[8192];
	} env[300]; /* the task's environment */
	size_t envs;
	char *envp[301]; /* the same as execve(2) has it, when asked for */
};

extern struct slurm slurm;

/* task_env is the value of a variable of the task, or NULL. */
const char *task_env(const char *name);

#endif
