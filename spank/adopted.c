/* The job that a session belongs to. pam_slurm_adopt puts the session's process into the
 * cgroup of the job's extern step, where no user can put a process of root's; a variable is
 * whatever another module, or a file of the user's, has set.
 *
 * cgroup v2:  0::/system.slice/slurmstepd.scope/job_7/step_extern/user/task_special
 * cgroup v1:  4:freezer:/slurm/uid_1000/job_7/step_extern */
#include "adopted.h"

#include <errno.h>
#include <fcntl.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup.h"
#include "text.h"

#define EXTERN "/step_extern"
#define JOB "/job_"

/* A line of /proc/self/cgroup: cgroups(7). */
struct line {
	char *controllers; /* none: cgroup v2 */
	char *path;
};

static bool split(char *text, struct line *line)
{
	char *end = strchr(text, '\n');
	char *first = strchr(text, ':');
	char *second = first ? strchr(first + 1, ':') : NULL;

	if (!end || !second || second[1] != '/')
		return false;
	*end = *second = '\0';
	*line = (struct line){.controllers = first + 1, .path = second + 1};
	return true;
}

/* cut_job cuts a path off behind the job's own cgroup: the last, since this Slurm may
 * itself be in a step of another. It returns false where there is none. */
static bool cut_job(char *path)
{
	char *found = NULL;

	for (char *next = path; (next = strstr(next, EXTERN)); next += strlen(EXTERN))
		if (next != path && (next[strlen(EXTERN)] == '/' || !next[strlen(EXTERN)]))
			found = next;
	if (found)
		*found = '\0';
	return found;
}

/* read_number reads the job's id, as Slurm writes it. */
static int read_number(const char *path, uint32_t *job)
{
	const char *name = strrchr(path, '/');
	char again[sizeof(JOB "4294967295")];

	if (!strncmp(name, JOB, strlen(JOB)))
		*job = (uint32_t)strtoul(name + strlen(JOB), NULL, 10);
	else
		*job = 0;
	snprintf(again, sizeof(again), JOB "%u", *job);
	if (*job && !strcmp(name, again))
		return 0;
	slurm_error("gresnet: cgroup %s" EXTERN " does not name its job by a number; "
		    "hint: set CgroupJobIdPaths=yes in cgroup.conf (Slurm 26.05) [GN021]", path);
	return -1;
}

/* check_owner: a user may have cgroups of his own, and name them as he likes. */
static int check_owner(uint32_t job, const struct line *line)
{
	char path[sizeof(CGROUPS) + 2 * CGROUP_MAX];
	int rc = -1;
	int fd;

	snprintf(path, sizeof(path), CGROUPS "%s%s%s", *line->controllers ? "/" : "", line->controllers, line->path);
	fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1) {
		slurm_error("gresnet: job %u: open %s: %m", job, path);
		return -1;
	}
	if (!text_trusts(job, fd, path))
		rc = 0;
	close(fd);
	return rc;
}

/* add_line is for lines that name a job, all of which must name the same. A hierarchy
 * without controllers is not Slurm's, and of systemd's own users have parts. */
static int add_line(char *text, uint32_t *job)
{
	struct line line;
	uint32_t named;

	if (!split(text, &line)) {
		slurm_error("gresnet: read /proc/self/cgroup: unknown form");
		return -1;
	}
	if (!strncmp(line.controllers, "name=", strlen("name=")) || !cut_job(line.path))
		return 0;
	if (read_number(line.path, &named) || check_owner(named, &line))
		return -1;
	if (*job && *job != named) {
		slurm_error("gresnet: this session is in cgroups of job %u and of job %u", *job, named);
		return -1;
	}
	*job = named;
	return 0;
}

enum adopted adopted_by(uint32_t *job)
{
	char text[CGROUP_MAX];
	enum adopted adopted = ADOPTED_UNKNOWN;
	FILE *file = fopen("/proc/self/cgroup", "re");

	*job = 0;
	if (!file) {
		slurm_error("gresnet: open /proc/self/cgroup: %m");
		return ADOPTED_UNKNOWN;
	}
	while (fgets(text, sizeof(text), file))
		if (add_line(text, job))
			goto out;
	if (ferror(file)) {
		slurm_error("gresnet: read /proc/self/cgroup: %m");
		goto out;
	}
	adopted = *job ? ADOPTED_BY_JOB : ADOPTED_NONE;
out:
	fclose(file);
	return adopted;
}
