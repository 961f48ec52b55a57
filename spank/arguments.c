/* The arguments of the plugin's line in plugstack.conf. There is no file of
 * ours that the plugin reads: what it does is the same for all of a node's jobs
 * and said where it is loaded. */
#include "arguments.h"

#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stddef.h>
#include <string.h>

#define STATE "state="
#define ALL "steps, batch=auto, batch=single, batch, all, " STATE "DIR, pmix=relay, pmix=off, notice=on, notice=off, allow=none"

static bool read_one(struct arguments *arguments, const char *argument)
{
	if (!strncmp(argument, STATE "/", strlen(STATE "/")))
		arguments->state = argument + strlen(STATE);
	else if (!strcmp(argument, "steps"))
		arguments->who = ENTER_STEPS;
	else if (!strcmp(argument, "batch=auto"))
		arguments->who = ENTER_SRUN;
	else if (!strcmp(argument, "batch=single"))
		arguments->who = ENTER_SINGLE;
	else if (!strcmp(argument, "batch"))
		arguments->who = ENTER_BATCH;
	else if (!strcmp(argument, "all"))
		arguments->who = ENTER_ALL;
	else if (!strcmp(argument, "pmix=relay"))
		arguments->relay = true;
	else if (!strcmp(argument, "pmix=off"))
		arguments->relay = false;
	else if (!strcmp(argument, "notice=on"))
		arguments->notice = true;
	else if (!strcmp(argument, "notice=off"))
		arguments->notice = false;
	else if (!strcmp(argument, "allow=none"))
		arguments->allow_none = true;
	else
		return false;
	return true;
}

int arguments_read(struct arguments *arguments, int argc, char *argv[])
{
	*arguments = (struct arguments){.state = "/run/gresnet", .who = ENTER_STEPS, .relay = true, .notice = true};
	for (int i = 0; i < argc; i++) {
		if (!read_one(arguments, argv[i])) {
			slurm_error("gresnet: plugstack.conf: unknown argument %s; "
				    "hint: there are " ALL "; DIR is an absolute path", argv[i]);
			return -1;
		}
	}
	return 0;
}

static bool script_enters(const struct arguments *arguments, struct about job)
{
	switch (arguments->who) {
	case ENTER_STEPS:
		return false;
	case ENTER_SINGLE:
		return job.single;
	case ENTER_SRUN:
		return job.srun;
	case ENTER_BATCH:
	case ENTER_ALL:
		return true;
	}
	return false;
}

bool arguments_enter(const struct arguments *arguments, uint32_t step, struct about job)
{
	if (step == SLURM_BATCH_SCRIPT)
		return script_enters(arguments, job);
	if (step == SLURM_INTERACTIVE_STEP)
		return arguments->who == ENTER_ALL;
	return step <= SLURM_MAX_NORMAL_STEP_ID;
}
