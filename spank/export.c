/* The variables of a lease that a job's programs need, as NCCL and UCX do to
 * find their HCAs. Which these are is the prolog's to say: see lease.c for the
 * names that are let through. */
#include "export.h"

#include <stdio.h>
#include <string.h>

bool export_ours(const char *name)
{
	return !strncmp(name, OURS, strlen(OURS));
}

/* must_be_true tells what the task cannot be told otherwise: what is ours, and
 * that enroot's 99-mellanox.sh is off, which pairs lists of /sys by position and
 * breaks where HCAs are in other namespaces. Everything else narrows down what a
 * program takes of what it sees: there, what the user set stays. */
static bool must_be_true(const char *name)
{
	return export_ours(name) || !strcmp(name, "MELLANOX_VISIBLE_DEVICES");
}

static int set(const struct environment *to, const struct lease *lease, const struct variable *v)
{
	char gave[sizeof(GAVE) + ENV_NAME_MAX];

	switch (to->set(to->of, lease->job, v, must_be_true(v->name))) {
	case SET_FAILED:
		return -1;
	case SET_KEPT:
		return 0;
	case SET_DONE:
		break;
	}
	if (export_ours(v->name))
		return 0;
	snprintf(gave, sizeof(gave), GAVE "%s", v->name);
	return to->set(to->of, lease->job, &(struct variable){.name = gave, .value = v->value}, true) == SET_DONE ? 0 : -1;
}

/* list_others sets GRESNET_VARIABLES to the names of those variables that do
 * not begin with GRESNET_. By it enroot's hook knows what a container must have
 * of a task's environment. */
static int list_others(const struct environment *to, const struct lease *lease)
{
	char names[ENV_LINES_MAX * (ENV_NAME_MAX + 1)] = "";
	struct variable list = {.name = OURS "VARIABLES", .value = names};
	size_t have = 0;

	for (size_t i = HEAD_LINES; i < lease->lines; i++)
		if (!export_ours(lease->line[i].name))
			have += (size_t)snprintf(names + have, sizeof(names) - have, "%s%s", have ? "," : "",
						 lease->line[i].name);
	return set(to, lease, &list);
}

int export_variables(const struct environment *to, const struct lease *lease)
{
	if (set(to, lease, &lease->line[LINE_JOB]))
		return -1;
	for (size_t i = HEAD_LINES; i < lease->lines; i++)
		if (set(to, lease, &lease->line[i]))
			return -1;
	return list_others(to, lease);
}
