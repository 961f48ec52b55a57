/* The variables of a lease that a job's programs need, as NCCL and UCX do to
 * find their HCAs. Which these are is the prolog's to say: see lease.c for the
 * names that are let through. */
#include "export.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define OURS "GRESNET_"

static bool ours(const char *name)
{
	return !strncmp(name, OURS, strlen(OURS));
}

/* must_be_true tells what the task cannot be told otherwise: what is ours, and
 * that enroot's 99-mellanox.sh is off, which pairs lists of /sys by position and
 * breaks where HCAs are in other namespaces. Everything else narrows down what a
 * program takes of what it sees: there, what the user set stays. */
static bool must_be_true(const char *name)
{
	return ours(name) || !strcmp(name, "MELLANOX_VISIBLE_DEVICES");
}

static int set(spank_t spank, const struct lease *lease, const struct variable *v)
{
	spank_err_t err = spank_setenv(spank, v->name, v->value, must_be_true(v->name));

	if (err == ESPANK_SUCCESS || (err == ESPANK_ENV_EXISTS && !must_be_true(v->name)))
		return 0;
	slurm_error("gresnet: job %u: set %s: %s", lease->job, v->name, spank_strerror(err));
	return -1;
}

/* list_others sets GRESNET_VARIABLES to the names of those variables that do
 * not begin with GRESNET_. By it enroot's hook knows what a container must have
 * of a task's environment. */
static int list_others(spank_t spank, const struct lease *lease)
{
	char names[ENV_LINES_MAX * (ENV_NAME_MAX + 1)] = "";
	struct variable list = {.name = OURS "VARIABLES", .value = names};
	size_t have = 0;

	for (size_t i = HEAD_LINES; i < lease->lines; i++)
		if (!ours(lease->line[i].name))
			have += (size_t)snprintf(names + have, sizeof(names) - have, "%s%s", have ? "," : "",
						 lease->line[i].name);
	return set(spank, lease, &list);
}

int export_variables(spank_t spank, const struct lease *lease)
{
	if (set(spank, lease, &lease->line[LINE_JOB]))
		return -1;
	for (size_t i = HEAD_LINES; i < lease->lines; i++)
		if (set(spank, lease, &lease->line[i]))
			return -1;
	return list_others(spank, lease);
}
