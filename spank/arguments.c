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

/* What an argument is about. Two about the same thing exclude each other. */
enum kind { WHO, WHERE, RELAY, NOTICE, ALLOW, KINDS };

static const struct argument {
	const char *text;
	enum kind kind;
	int value;
} known[] = {
	{"steps", WHO, ENTER_STEPS},
	{"batch=auto", WHO, ENTER_SRUN},
	{"batch=single", WHO, ENTER_SINGLE},
	{"batch", WHO, ENTER_BATCH},
	{"all", WHO, ENTER_ALL},
	{"pmix=relay", RELAY, true},
	{"pmix=off", RELAY, false},
	{"notice=on", NOTICE, true},
	{"notice=off", NOTICE, false},
	{"allow=none", ALLOW, true},
};

/* read_one returns what an argument is about; KINDS: nobody knows it. */
static enum kind read_one(struct arguments *arguments, const char *text)
{
	const struct argument *is = NULL;

	if (!strncmp(text, STATE "/", strlen(STATE "/"))) {
		arguments->state = text + strlen(STATE);
		return WHERE;
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(text, known[i].text))
			is = &known[i];
	if (!is)
		return KINDS;
	switch (is->kind) {
	case WHO:
		arguments->who = (enum enters)is->value;
		break;
	case RELAY:
		arguments->relay = is->value;
		break;
	case NOTICE:
		arguments->notice = is->value;
		break;
	case ALLOW:
		arguments->allow_none = is->value;
		break;
	case WHERE:
	case KINDS:
		break;
	}
	return is->kind;
}

int arguments_read(struct arguments *arguments, int argc, char *argv[])
{
	const char *said[KINDS] = {NULL};

	*arguments = (struct arguments){.state = "/run/gresnet", .who = ENTER_STEPS, .relay = true, .notice = true};
	for (int i = 0; i < argc; i++) {
		enum kind kind = read_one(arguments, argv[i]);

		if (kind == KINDS) {
			slurm_error("gresnet: plugstack.conf: unknown argument %s; "
				    "hint: there are " ALL "; DIR is an absolute path [GN022]", argv[i]);
			return -1;
		}
		if (said[kind] && strcmp(said[kind], argv[i])) {
			slurm_error("gresnet: plugstack.conf: %s and %s exclude each other; "
				    "hint: leave one of them [GN023]", said[kind], argv[i]);
			return -1;
		}
		said[kind] = argv[i];
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
