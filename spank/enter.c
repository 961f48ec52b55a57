/* Entering a lease: what changes for a task. All mounts are made in a mount
 * namespace that ends with the job's last process, so there is nothing to undo. Plain
 * mount(2) does it all and works on every kernel that can move an HCA. */
#include "enter.h"
#include "classes.h"
#include "mounts.h"
#include "names.h"
#include "text.h"
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DEVICES "/dev/infiniband"

/* unshare_mounts leaves propagation from the node on (an NFS directory mounted
 * later is seen), and to the node off. */
static int unshare_mounts(uint32_t job)
{
	if (unshare(CLONE_NEWNS) == -1) {
		slurm_error("gresnet: job %u: create mount namespace: %m", job);
		return -1;
	}
	if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) == -1) {
		slurm_error("gresnet: job %u: make all mounts slaves: %m", job);
		return -1;
	}
	return 0;
}

/* reopen_dir opens the lease's directory as this mount namespace has it: what
 * hangs on the descriptor of the old one cannot be bound here
 * (fs/namespace.c:do_loopback wants the source in the caller's namespace). */
static int reopen_dir(const struct lease *lease, const char *state)
{
	struct stat before, now;
	int dir = lease_dir(state, lease->job);

	if (dir == -1) {
		if (errno == ENOENT)
			slurm_error("gresnet: job %u: the lease is gone", lease->job);
		return -1;
	}
	if (fstat(lease->dir, &before) == -1 || fstat(dir, &now) == -1 ||
	    before.st_dev != now.st_dev || before.st_ino != now.st_ino) {
		slurm_error("gresnet: job %u: the lease was replaced", lease->job);
		close(dir);
		return -1;
	}
	return dir;
}

static bool mounted_apart(int dir, int parent)
{
	struct stat st, above;

	return fstat(dir, &st) == 0 && fstat(parent, &above) == 0 && st.st_dev != above.st_dev;
}

/* cover_devices puts the lease's dev over /dev/infiniband. The directory is
 * not made where the node has none: /dev is the node's, not the task's. */
static int cover_devices(const struct lease *lease, int dir)
{
	char path[sizeof("/proc/self/fd/2147483647")];
	int rc = -1;
	int dev = openat(dir, "dev", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dev == -1) {
		slurm_error("gresnet: job %u: open dev: %m", lease->job);
		goto out;
	}
	if (text_trusts(lease->job, dev, "dev"))
		goto out;
	if (!mounted_apart(dev, dir)) {
		slurm_error("gresnet: job %u: nothing is mounted at dev; hint: see whether somebody unmounted it [GN024]", lease->job);
		goto out;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", dev);
	if (mount(path, DEVICES, NULL, MS_BIND | MS_REC, NULL) == -1) {
		slurm_error("gresnet: job %u: mount the job's devices at " DEVICES ": %m%s", lease->job,
			    errno == ENOENT ? "; hint: load ib_uverbs on the node [GN025]" : "");
		goto out;
	}
	if (mount(NULL, DEVICES, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC, NULL) == -1) {
		slurm_error("gresnet: job %u: set mount flags of " DEVICES ": %m", lease->job);
		goto out;
	}
	rc = 0;
out:
	if (dev != -1)
		close(dev);
	return rc;
}

/* cover puts all that the lease has of its own over what the node has. */
static int cover(const struct lease *lease, const char *state)
{
	int rc = -1;
	int dir = reopen_dir(lease, state);

	if (dir == -1)
		return -1;
	if (!cover_devices(lease, dir) && !names_cover(lease->job, dir))
		rc = 0;
	close(dir);
	return rc;
}

/* flags_of is what mount(2) needs to make a mount with the flags of another. */
static unsigned long flags_of(const struct statvfs *mounted)
{
	static const struct { unsigned long have, want; } table[] = {
		{ST_RDONLY, MS_RDONLY}, {ST_NOSUID, MS_NOSUID}, {ST_NODEV, MS_NODEV},
		{ST_NOEXEC, MS_NOEXEC}, {ST_NOATIME, MS_NOATIME}, {ST_NODIRATIME, MS_NODIRATIME},
		{ST_RELATIME, MS_RELATIME},
	};
	unsigned long flags = 0;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (mounted->f_flag & table[i].have)
			flags |= table[i].want;
	return flags & (MS_NOATIME | MS_RELATIME) ? flags : flags | MS_STRICTATIME;
}

/* carry binds a tree of mounts that is below /sys to the same place below
 * stage. A place that a fresh sysfs lacks is that of another namespace's
 * interface: nothing to cover. */
static int carry(const struct lease *lease, const char *at, const char *stage)
{
	char to[PATH_MAX];

	if (snprintf(to, sizeof(to), "%s%s", stage, at + strlen("/sys")) >= (int)sizeof(to)) {
		slurm_error("gresnet: job %u: carry over %s: path too long", lease->job, at);
		return -1;
	}
	if (access(to, F_OK) == -1 && errno == ENOENT)
		return 0;
	if (mount(at, to, NULL, MS_BIND | MS_REC, NULL) == -1) {
		slurm_error("gresnet: job %u: carry over %s: %m", lease->job, at);
		return -1;
	}
	return 0;
}

/* carry_submounts does so for each mount that hangs on the topmost one at
 * /sys; what is mounted deeper comes along. */
static int carry_submounts(const struct lease *lease, const char *stage)
{
	struct mounted m;
	int sys = -1;
	int rc = -1;
	FILE *mountinfo = fopen("/proc/self/mountinfo", "re");

	if (!mountinfo) {
		slurm_error("gresnet: job %u: open /proc/self/mountinfo: %m", lease->job);
		return -1;
	}
	while (mounts_next(mountinfo, &m))
		if (!strcmp(m.at, "/sys"))
			sys = m.id; /* a mount is listed after the one that it covers */
	if (!feof(mountinfo) || sys == -1) {
		slurm_error("gresnet: job %u: find what is mounted at /sys: not in /proc/self/mountinfo", lease->job);
		goto out;
	}
	rewind(mountinfo);
	while (mounts_next(mountinfo, &m))
		if (m.parent == sys && !strncmp(m.at, "/sys/", strlen("/sys/")) && carry(lease, m.at, stage))
			goto out;
	if (!feof(mountinfo)) {
		slurm_error("gresnet: job %u: read /proc/self/mountinfo: unknown form", lease->job);
		goto out;
	}
	rc = 0;
out:
	fclose(mountinfo);
	return rc;
}

/* renew_sysfs replaces /sys by one that shows this network namespace: a sysfs
 * shows that of the process that mounted it. It is put together at stage, a
 * directory of root's, and then takes the place of the old.
 *
 * Read-only is set per mount, by a remount of the bind: all mounts of one
 * namespace's sysfs share one superblock, other tasks' included. */
static int renew_sysfs(const struct lease *lease, const char *stage)
{
	struct statvfs old;
	unsigned long flags;

	if (statvfs("/sys", &old) == -1) {
		slurm_error("gresnet: job %u: stat /sys: %m", lease->job);
		return -1;
	}
	flags = flags_of(&old);
	if (mount("sysfs", stage, "sysfs", flags & ~(unsigned long)MS_RDONLY, NULL) == -1) {
		slurm_error("gresnet: job %u: mount a sysfs of the job's network namespace: %m", lease->job);
		return -1;
	}
	if (carry_submounts(lease, stage))
		return -1;
	if (flags & MS_RDONLY && mount(NULL, stage, NULL, MS_REMOUNT | MS_BIND | flags, NULL) == -1) {
		slurm_error("gresnet: job %u: make the job's sysfs read-only: %m", lease->job);
		return -1;
	}
	if (umount2("/sys", MNT_DETACH | UMOUNT_NOFOLLOW) == -1) {
		slurm_error("gresnet: job %u: take the node's /sys out of the task's sight: %m", lease->job);
		return -1;
	}
	if (mount(stage, "/sys", NULL, MS_MOVE, NULL) == -1) {
		slurm_error("gresnet: job %u: move the job's sysfs to /sys: %m", lease->job);
		return -1;
	}
	return 0;
}

/* share_mounts has the job's mounts shared as systemd has the node's: rootless podman, say, asks for that.
 * A mount that comes from the node stays a slave. It is done last, since no mount moves from a shared one
 * (fs/namespace.c:do_move_mount). */
static int share_mounts(uint32_t job)
{
	if (mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL) == -1) {
		slurm_error("gresnet: job %u: make all mounts shared: %m", job);
		return -1;
	}
	return 0;
}

/* make_view makes the mount namespace that the job's tasks have together. */
static int make_view(const struct lease *lease, const char *state)
{
	if (unshare_mounts(lease->job) || cover(lease, state))
		return -1;
	if (lease_has_network(lease) && renew_sysfs(lease, state))
		return -1;
	if (classes_cover(lease->job))
		return -1;
	return share_mounts(lease->job);
}

int enter(const struct lease *lease, const char *state)
{
	if (lease_has_network(lease) && setns(lease->netns, CLONE_NEWNET) == -1) {
		/* Slurm 26.05's user namespace maps all users onto themselves, and so looks like the first one. */
		slurm_error("gresnet: job %u: enter the job's network namespace: %m%s", lease->job,
			    errno == EPERM ? "; hint: take CLONE_NEWUSER out of namespace.yaml [GN026]" : "");
		return -1;
	}
	return view_enter(lease, state, make_view);
}

int enter_without(uint32_t job)
{
	if (unshare_mounts(job))
		return -1;
	if (mount("gresnet", DEVICES, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755") == -1 &&
	    errno != ENOENT) {
		slurm_error("gresnet: job %u: cover " DEVICES ": %m", job);
		return -1;
	}
	return share_mounts(job);
}

int shut_in(uint32_t job)
{
	if (unshare(CLONE_NEWNET) == -1) {
		slurm_error("gresnet: job %u: create network namespace: %m", job);
		return -1;
	}
	return enter_without(job);
}
