/* How much of its HCAs a job may use: lines of the lease for the rdma controller
 * of its cgroup, which exists from the extern step's start to the job's end. What
 * is set here ends with it. */
#include "limit.h"

#include <errno.h>
#include <fcntl.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cgroup.h"
#include "text.h"

enum { LIMITS_MAX = 16384 };

/* open_controller opens rdma.max of the job's cgroup. */
static int open_controller(const struct step *step)
{
	uint32_t job = step->job;
	char path[sizeof(CGROUPS) + CGROUP_MAX + sizeof("/rdma.max")] = CGROUPS;
	int fd;

	switch (cgroup_of_job(step, path + strlen(CGROUPS))) {
	case CGROUP_UNKNOWN:
		return -1;
	case CGROUP_NONE:
		slurm_error("gresnet: job %u: set limits: slurmstepd is in cgroup \"%s\", which is not a step's of the job; "
			    "hint: limits need cgroup v2 and ProctrackType=proctrack/cgroup [GN036]", job, path + strlen(CGROUPS));
		return -1;
	case CGROUP_FOUND:
		break;
	}
	strcat(path, "/rdma.max");
	fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1 && errno == ENOENT)
		slurm_error("gresnet: job %u: warning: the limits of gresnet.toml do not hold: there is no %s; "
			    "hint: enable the cgroup controller rdma, see [limits] in gresnet.toml(5) [GN037]", job, path);
	else if (fd == -1)
		slurm_error("gresnet: job %u: open %s: %m", job, path);
	return fd;
}

/* check_line wants "HCA hca_handle=N hca_object=N", either or both. */
static bool check_line(const char *line)
{
	char device[64], first[32], second[32], more;
	int parts = sscanf(line, "%63s %31s %31s %c", device, first, second, &more);
	const char *values[] = {first, second};

	if (parts != 2 && parts != 3)
		return false;
	for (int i = 0; i < parts - 1; i++) {
		const char *number = strchr(values[i], '=');

		if (strncmp(values[i], "hca_handle=", strlen("hca_handle=")) &&
		    strncmp(values[i], "hca_object=", strlen("hca_object=")))
			return false;
		if (!number[1] || number[1 + strspn(number + 1, "0123456789")])
			return false;
	}
	return true;
}

/* write_lines writes each line by itself: the kernel takes one device at a time
 * (kernel/cgroup/rdma.c:rdmacg_resource_set_max). */
static int write_lines(uint32_t job, int fd, char *text)
{
	int rc = 0;
	char *rest;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (!check_line(line)) {
			slurm_error("gresnet: job %u: limits: \"%s\" is not HCA hca_handle=N hca_object=N", job, line);
			rc = -1;
		} else if (write(fd, line, strlen(line)) == -1) {
			slurm_error("gresnet: job %u: set limits \"%s\": %m", job, line);
			rc = -1;
		}
	}
	return rc;
}

static int set(const char *state, const struct step *step, char *text)
{
	struct lease lease;
	int rc = -1;
	int fd;

	/* Another run's are not this one's. */
	if (lease_open(&lease, state, step) != LEASE_HELD)
		return -1;
	fd = open_controller(step);
	if (fd != -1) {
		rc = write_lines(step->job, fd, text);
		close(fd);
	}
	lease_close(&lease);
	return rc;
}

int limit_set(const char *state, const struct step *step)
{
	char text[LIMITS_MAX + 1];
	int dir = lease_dir(state, step->job);
	int rc;

	if (dir == -1)
		return errno == ENOENT ? 0 : -1;
	rc = text_read(step->job, dir, "limits", text, sizeof(text));
	if (rc == -1 && errno == ENOENT)
		rc = 0; /* it has none */
	else if (rc == 0)
		rc = set(state, step, text);
	close(dir);
	return rc;
}
