/* The job's cgroup. Its name is the job's id or its SLUID, by version and
 * configuration, so that it is read and not computed. */
#include "cgroup.h"

#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { STEP_MAX = sizeof("/step_interactive") };

/* own_cgroup is this process's, the line "0::PATH" of /proc/self/cgroup: v2's. */
static int own_cgroup(uint32_t job, char *path)
{
	char line[CGROUP_MAX];
	FILE *file = fopen("/proc/self/cgroup", "re");
	int rc = -1;

	*path = '\0';
	if (!file)
		goto out;
	while (!*path && fgets(line, sizeof(line), file))
		if (sscanf(line, "0::%4095[^\n]", path) != 1)
			*path = '\0';
	if (!ferror(file))
		rc = 0;
out:
	if (rc)
		slurm_error("gresnet: job %u: read /proc/self/cgroup: %m", job);
	if (file)
		fclose(file);
	return rc;
}

/* name_step is what Slurm calls a step's cgroup (cgroup_v2.c:_init_cgroup_step_paths). */
static void name_step(uint32_t step, char *name)
{
	switch (step) {
	case SLURM_EXTERN_CONT:
		strcpy(name, "/step_extern");
		return;
	case SLURM_BATCH_SCRIPT:
		strcpy(name, "/step_batch");
		return;
	case SLURM_INTERACTIVE_STEP:
		strcpy(name, "/step_interactive");
		return;
	}
	snprintf(name, STEP_MAX, "/step_%u", step);
}

/* ends_name tells whether a step's name ends there. That of a component of a
 * heterogeneous step has the component's number: step_0+1 (log.c:log_build_step_id_str). */
static bool ends_name(const char *rest)
{
	if (rest[0] == '+' && rest[1] >= '0' && rest[1] <= '9')
		rest += 1 + strspn(rest + 1, "0123456789");
	return *rest == '/' || !*rest;
}

enum cgroup cgroup_of_job(const struct step *step, char *path)
{
	char name[STEP_MAX];
	char *found = NULL;
	size_t length;

	if (own_cgroup(step->job, path))
		return CGROUP_UNKNOWN;
	name_step(step->id, name);
	length = strlen(name);
	/* The last: this Slurm may itself be in a step of another. */
	for (char *next = path; (next = strstr(next, name)); next += length)
		if (next != path && ends_name(next + length))
			found = next;
	if (!found)
		return CGROUP_NONE;
	*found = '\0';
	return CGROUP_FOUND;
}
