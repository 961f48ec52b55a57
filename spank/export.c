/* The variables of a lease that a job's programs need, as NCCL and UCX do to
 * find their HCAs. Which these are is the prolog's to say: see lease.c for the
 * names that are let through. */
#include "export.h"
#include "variables.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OURS "GRESNET_"
/* With a variable's name after it: what the plugin has set that to. */
#define GAVE OURS "GAVE_"

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
	char gave[sizeof(GAVE) + ENV_NAME_MAX];
	spank_err_t err = spank_setenv(spank, v->name, v->value, must_be_true(v->name));

	if (err == ESPANK_ENV_EXISTS && !must_be_true(v->name))
		return 0;
	if (err == ESPANK_SUCCESS && !ours(v->name)) {
		snprintf(gave, sizeof(gave), GAVE "%s", v->name);
		err = spank_setenv(spank, gave, v->value, 1);
	}
	if (err == ESPANK_SUCCESS)
		return 0;
	slurm_error("gresnet: job %u: set %s: %s", lease->job, v->name, spank_strerror(err));
	return -1;
}

static const char *value_in(char **env, const char *name)
{
	size_t length = strlen(name);

	for (; *env; env++)
		if (!strncmp(*env, name, length) && (*env)[length] == '=')
			return *env + length + 1;
	return NULL;
}

/* forget unsets one variable of ours and, if it says what another was set to and
 * that was not changed since, the other, too. */
static int forget(spank_t spank, uint32_t job, char **env, const char *variable)
{
	const char *has = NULL;
	char *name = strdup(variable);
	int rc = -1;

	if (!name)
		goto out;
	*strchr(name, '=') = '\0';
	if (!strncmp(name, GAVE, strlen(GAVE)))
		has = value_in(env, name + strlen(GAVE));
	if (has && !strcmp(has, variable + strlen(name) + 1) && spank_unsetenv(spank, name + strlen(GAVE)))
		goto out;
	if (!spank_unsetenv(spank, name))
		rc = 0;
out:
	if (rc)
		slurm_error("gresnet: job %u: unset %s", job, name ? name : "a variable");
	free(name);
	return rc;
}

int export_forget(spank_t spank, uint32_t job)
{
	return variables_forget(spank, job, ours, forget);
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
