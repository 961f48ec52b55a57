/* A lease that is there and that the task does not see: Slurm's job containers may
 * have a /run of their own. A task without a lease runs in the node's network, so
 * what is missing must be missing for certain. */
#include "hidden.h"
#include "mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a process sees of leases. */
enum sight {
	SIGHT_NOTHING, /* not even the directory that the prolog makes for them */
	SIGHT_OTHERS,
	SIGHT_LEASE,
};

static enum sight look_as(int process, const char *state, uint32_t job)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/%d/root%s/jobs/%u", process, state, job);
	if (access(path, F_OK) == 0)
		return SIGHT_LEASE;
	*strrchr(path, '/') = '\0';
	return access(path, F_OK) == 0 ? SIGHT_OTHERS : SIGHT_NOTHING;
}

/* mount_id is the id of the mount on which a path is, or as much as there is of
 * it; or -1. */
static int mount_id(const char *path)
{
	char name[PATH_MAX], line[128];
	FILE *info = NULL;
	int id = -1;
	int fd;

	snprintf(name, sizeof(name), "%s", path);
	while ((fd = open(*name ? name : "/", O_PATH | O_CLOEXEC)) == -1 && errno == ENOENT && *name)
		*strrchr(name, '/') = '\0';
	if (fd == -1)
		goto out;
	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
	info = fopen(name, "re");
	while (info && id == -1 && fgets(line, sizeof(line), info))
		if (sscanf(line, "mnt_id: %d", &id) != 1)
			id = -1;
out:
	if (info)
		fclose(info);
	if (fd != -1)
		close(fd);
	return id;
}

static bool find_mount(FILE *mountinfo, int id, struct mounted *m)
{
	rewind(mountinfo);
	while (mounts_next(mountinfo, m))
		if (m->id == id)
			return true;
	return false;
}

/* is_covered tells whether the state directory is on a mount that covers what the
 * node has there: a part of another file system, as a job container binds it, or a
 * whole one over another. The root file system is the node's own, whatever part of
 * one it is (a subvolume of btrfs, say): no container of Slurm's changes it. It
 * returns -1 if it cannot tell. */
static int is_covered(const char *state)
{
	struct mounted m, below;
	int covered = -1;
	int id = mount_id(state);
	FILE *mountinfo = fopen("/proc/self/mountinfo", "re");

	if (id == -1 || !mountinfo || !find_mount(mountinfo, id, &m))
		goto out;
	covered = strcmp(m.at, "/") &&
		  (strcmp(m.root, "/") || (find_mount(mountinfo, m.parent, &below) && !strcmp(below.at, m.at)));
out:
	if (mountinfo)
		fclose(mountinfo);
	return covered;
}

/* hidden_here asks slurmstepd, or the node's first process. Since Slurm 25.11 both may
 * be inside with the task, who has then only the mounts to look at: where a prolog
 * has run, its directory is there, for jobs without a lease, too. */
bool hidden_here(const char *state, uint32_t job)
{
	int processes[] = {getppid(), 1, getpid()};
	enum sight most = SIGHT_NOTHING;
	int covered = 0;

	for (size_t i = 0; i < sizeof(processes) / sizeof(processes[0]); i++) {
		enum sight sight = look_as(processes[i], state, job);

		most = sight > most ? sight : most;
	}
	if (most == SIGHT_NOTHING)
		covered = is_covered(state);
	if (covered == -1) {
		slurm_error("gresnet: job %u: look for the lease: what is mounted at %s is not in /proc/self/mountinfo", job, state);
		return true;
	}
	if (most == SIGHT_LEASE)
		slurm_error("gresnet: job %u: the lease is hidden from the task: there is no %s/jobs/%u here; "
			    "hint: leave %s out of the folders that a job container makes private (Dirs=) [GN029]",
			    job, state, job, state);
	else if (covered)
		slurm_error("gresnet: job %u: a lease would be hidden from the task: there is no %s/jobs here, and something is "
			    "mounted over it; hint: leave %s out of the folders that a job container makes private (dirs) [GN030]",
			    job, state, state);
	return most == SIGHT_LEASE || covered;
}
