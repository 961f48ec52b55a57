/* The guard: a BPF program that gresnet-prolog attached, which lets nobody but
 * root open the job's devices until its map says whose they are (lib/kernel/bpf). The
 * job's cgroup is made after the prolog, so the plugin writes it into the map.
 * It changes entries only and adds none: a device without an entry has no guard.
 * A device that several jobs have is the exception: a second map has the cgroups
 * of all of them, and the plugin adds the job's there. */
#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <slurm/spank.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cgroup.h"

#define DEVICES "/sys/fs/bpf/gresnet/devices"
#define SHARERS "/sys/fs/bpf/gresnet/sharers"

#define ANYBODY UINT64_MAX
#define SEVERAL (UINT64_MAX - 1)
#define EXPECTED (UINT64_C(1) << 63)

/* A device, and the map's value for it: bpf.Device and bpf.entry. */
struct device {
	uint32_t major, minor;
};
struct entry {
	uint64_t cgroup;
	uint32_t job;
	uint32_t required;
};

/* A cgroup that may open a shared device, and the map's value for it: bpf.sharer
 * and bpf.holder. */
struct sharer {
	struct device device;
	uint64_t cgroup;
};
struct holder {
	uint32_t job;
	uint32_t required;
};

static int bpf(enum bpf_cmd command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* open_map returns -1 with errno ENOENT and nothing logged where there is none. */
static int open_map(uint32_t job, const char *path)
{
	union bpf_attr attr;
	int reason;
	int fd = -1;

	memset(&attr, 0, sizeof(attr));
	attr.pathname = (uintptr_t)path;
	/* bpf(2) says EPERM in a container that may not use it, map or no map. */
	if (access(path, F_OK) == 0)
		fd = bpf(BPF_OBJ_GET, &attr); /* close-on-exec, always */
	reason = errno;
	if (fd == -1 && reason != ENOENT)
		slurm_error("gresnet: job %u: open %s: %m", job, path);
	errno = reason;
	return fd;
}

static int on_element(enum bpf_cmd command, int map, const void *key, const void *value, uint64_t flags)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)map;
	attr.key = (uintptr_t)key;
	attr.value = (uintptr_t)value;
	attr.flags = flags;
	return bpf(command, &attr);
}

/* find_cgroup is the id of the job's cgroup: the number of its directory's inode
 * (include/linux/kernfs.h:kernfs_ino). Without one it is ANYBODY. */
static int find_cgroup(const struct step *step, uint64_t *id)
{
	char path[sizeof(CGROUPS) + CGROUP_MAX] = CGROUPS;
	struct stat st;

	_Static_assert(sizeof(st.st_ino) == sizeof(*id), "an inode's number is a cgroup's id on 64 bits only");
	*id = ANYBODY;
	switch (cgroup_of_job(step, path + strlen(CGROUPS))) {
	case CGROUP_UNKNOWN:
		return -1;
	case CGROUP_NONE:
		return 0;
	case CGROUP_FOUND:
		break;
	}
	if (stat(path, &st) == -1) {
		slurm_error("gresnet: job %u: stat %s: %m", step->job, path);
		return -1;
	}
	*id = st.st_ino;
	return 0;
}

/* judge_anybody fails a task that has no cgroup of the job's own, if it must have one. */
static int judge_anybody(uint32_t job, const struct device *device, uint64_t cgroup, uint32_t required)
{
	if (cgroup == ANYBODY && required) {
		slurm_error("gresnet: job %u: device %u:%u cannot be this job's alone: its tasks are not in a cgroup v2 of its own; "
			    "hint: set ProctrackType=proctrack/cgroup [GN027]", job, device->major, device->minor);
		return -1;
	}
	if (cgroup == ANYBODY)
		slurm_info("gresnet: job %u: warning: other jobs of the same user may open device %u:%u: its tasks are not in a "
			   "cgroup v2 of its own; hint: set ProctrackType=proctrack/cgroup [GN028]", job, device->major, device->minor);
	return 0;
}

/* add_sharer looks for the prolog's entry again when it has added the job's: an
 * epilog that runs meanwhile removes that one first. */
static int add_sharer(int map, uint32_t job, const struct device *device, uint64_t cgroup)
{
	struct sharer expected = {*device, EXPECTED | job};
	struct sharer own = {*device, cgroup};
	struct holder holder;

	if (on_element(BPF_MAP_LOOKUP_ELEM, map, &expected, &holder, 0) == -1) {
		slurm_error("gresnet: job %u: device %u:%u is shared by other jobs: %m", job, device->major, device->minor);
		return -1;
	}
	if (judge_anybody(job, device, cgroup, holder.required) == -1)
		return -1;
	if (on_element(BPF_MAP_UPDATE_ELEM, map, &own, &holder, BPF_ANY) == -1) {
		slurm_error("gresnet: job %u: allow device %u:%u: %m", job, device->major, device->minor);
		return -1;
	}
	if (on_element(BPF_MAP_LOOKUP_ELEM, map, &expected, &holder, 0) == -1) {
		slurm_error("gresnet: job %u: device %u:%u was taken back meanwhile", job, device->major, device->minor);
		on_element(BPF_MAP_DELETE_ELEM, map, &own, NULL, 0);
		return -1;
	}
	return 0;
}

static int share_device(uint32_t job, const struct device *device, uint64_t cgroup)
{
	int map = open_map(job, SHARERS);
	int rc;

	if (map == -1) {
		if (errno == ENOENT)
			slurm_error("gresnet: job %u: device %u:%u is shared, and " SHARERS " is not there", job, device->major, device->minor);
		return -1;
	}
	rc = add_sharer(map, job, device, cgroup);
	close(map);
	return rc;
}

static int allow_device(int map, uint32_t job, const struct device *device, uint64_t cgroup)
{
	struct entry entry;

	if (on_element(BPF_MAP_LOOKUP_ELEM, map, device, &entry, 0) == -1) {
		if (errno == ENOENT)
			return 0; /* rdma_cm, or nothing of this job's is guarded */
		slurm_error("gresnet: job %u: look for device %u:%u in " DEVICES ": %m", job, device->major, device->minor);
		return -1;
	}
	if (entry.cgroup == SEVERAL)
		return share_device(job, device, cgroup);
	if (entry.job != job) {
		slurm_error("gresnet: job %u: device %u:%u is guarded for job %u", job, device->major, device->minor, entry.job);
		return -1;
	}
	if (judge_anybody(job, device, cgroup, entry.required) == -1)
		return -1;
	entry.cgroup = cgroup;
	if (on_element(BPF_MAP_UPDATE_ELEM, map, device, &entry, BPF_EXIST) == -1) {
		slurm_error("gresnet: job %u: allow device %u:%u: %m", job, device->major, device->minor);
		return -1;
	}
	return 0;
}

/* allow_all goes through the lease's device nodes. */
static int allow_all(const struct lease *lease, int map, uint64_t cgroup)
{
	struct dirent *entry;
	struct stat st;
	int fd = openat(lease->dir, "dev", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd == -1 ? NULL : fdopendir(fd);
	int rc = 0;

	if (!dir) {
		slurm_error("gresnet: job %u: open dev: %m", lease->job);
		if (fd != -1)
			close(fd);
		return -1;
	}
	while (!rc && (entry = readdir(dir))) {
		if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == -1 || !S_ISCHR(st.st_mode))
			continue;
		rc = allow_device(map, lease->job, &(struct device){major(st.st_rdev), minor(st.st_rdev)}, cgroup);
	}
	closedir(dir);
	return rc;
}

int guard_allow(const struct lease *lease, const struct step *step)
{
	uint64_t cgroup;
	int rc = -1;
	int map = open_map(lease->job, DEVICES);

	if (map == -1)
		return errno == ENOENT ? 0 : -1;
	if (find_cgroup(step, &cgroup) == 0)
		rc = allow_all(lease, map, cgroup);
	close(map);
	return rc;
}
