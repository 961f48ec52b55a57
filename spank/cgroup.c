/* The job's cgroup. Its name is the job's id or its SLUID, by version and
 * configuration, so that it is read and not computed. */
#include "cgroup.h"

#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>

enum { STEP_MAX = sizeof("/step_interactive") };

/* own_cgroup is this process's, the line "0::PATH" of /proc/self/cgroup: v2's. */
static int own_cgroup(uint32_t job, char *path)
{
	char line[CGROUP_MAX];
	FILE *file = fopen("/proc/self/cgroup", "re");

	*path = '\0';
	if (!file) {
		slurm_error("gresnet: job %u: open /proc/self/cgroup: %m", job);
		return -1;
	}
	while (!*path && fgets(line, sizeof(line), file))
		if (sscanf(line, "0::%4095[^\n]", path) != 1)
			*path = '\0';
	fclose(file);
	return 0;
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

int cgroup_of_job(const struct step *step, char *path)
{
	char name[STEP_MAX];
	char *found = NULL;
	size_t length;

	if (own_cgroup(step->job, path))
		return -1;
	name_step(step->id, name);
	length = strlen(name);
	/* The last: this Slurm may itself be in a step of another. */
	for (char *next = path; (next = strstr(next, name)); next += length)
		if (next != path && (next[length] == '/' || !next[length]))
			found = next;
	if (!found)
		return -1;
	*found = '\0';
	return 0;
}
