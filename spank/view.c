/* The mounts that the tasks of a job have together on a node: what one of them mounts (FUSE,
 * say), the others see, as they would on the node, and the node does not.
 *
 * The first task makes the mount namespace, later ones enter it. Nothing pins it but the
 * processes inside: so nobody has to undo it, and no epilog ever unmounts what a user has
 * mounted. A file system whose server lives in the job works as long as the namespace does.
 *
 * An attribute of the lease's directory says which namespace it is and which tasks were put
 * into it. The kernel replaces an attribute whole or not at all, only root may read it, and it
 * goes with the directory. It has the number of the mount namespace from which the task comes in
 * its name: a job container of Slurm's, say, or the node.
 *
 * The kernel gives numbers of namespaces and processes again. So a task enters a namespace only
 * if root has made it, and stays only if the root directory is its own and the device nodes are
 * the lease's. A namespace that a user has made is never entered. */
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DEVICES "/dev/infiniband"

enum {
	TASKS_MAX = 512, /* noted of those that live; further ones enter all the same */
	NUMBER_SIZE = sizeof(" 18446744073709551615"),
	TEXT_SIZE = NUMBER_SIZE + TASKS_MAX * sizeof(" 2147483647"),
};

struct view {
	uint32_t job;
	int lock;      /* the lease's directory, locked */
	int base;      /* the mount namespace from which the task comes */
	int root;      /* the root directory there */
	struct stat at_base, at_root, users, devices;
	char name[sizeof("trusted.gresnet.mounts.") + NUMBER_SIZE];

	uintmax_t made; /* the namespace's number, 0: none is noted */
	pid_t task[TASKS_MAX];
	size_t tasks;
};

enum sight {
	SIGHT_LOST = -1, /* neither in one nor back */
	SIGHT_NONE,
	SIGHT_ENTERED,
	SIGHT_UNKNOWN, /* there may be one; the reason is logged */
};

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static enum sight unknown(const struct view *v, const char *what)
{
	/* A kernel without attributes for a file system in memory is no news for each task. */
	if (errno != EOPNOTSUPP)
		slurm_error("gresnet: job %u: share mounts with the job's other tasks: %s: %m", v->job, what);
	return SIGHT_UNKNOWN;
}

/* parse_note reads a number, and those of processes. What is not so is nobody's. */
static void parse_note(struct view *v, const char *text)
{
	char *end;

	v->made = strtoumax(text, &end, 10);
	while (v->tasks < TASKS_MAX && *end == ' ')
		v->task[v->tasks++] = (pid_t)strtol(end + 1, &end, 10);
}

static enum sight read_note(struct view *v)
{
	char text[TEXT_SIZE];
	ssize_t n = fgetxattr(v->lock, v->name, text, sizeof(text) - 1);

	if (n == -1)
		return errno == ENODATA ? SIGHT_NONE : unknown(v, "read what is noted");
	text[n] = '\0';
	parse_note(v, text);
	return SIGHT_NONE;
}

/* write_note notes this task behind the others. One that is not noted is not found later. */
static void write_note(const struct view *v)
{
	char text[TEXT_SIZE];
	size_t have = (size_t)snprintf(text, sizeof(text), "%ju", v->made);

	for (size_t i = 0; i < v->tasks; i++)
		have += (size_t)snprintf(text + have, sizeof(text) - have, " %d", (int)v->task[i]);
	if (fsetxattr(v->lock, v->name, text, have, 0) == -1)
		unknown(v, "note the task");
}

/* take_lock waits for tasks of this job alone, while they are root's: they do here what is the
 * same for every job. A signal that ends this task ends the wait. */
static int take_lock(struct view *v, const struct lease *lease)
{
	int rc;

	v->lock = openat(lease->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (v->lock == -1)
		return -1;
	do
		rc = flock(v->lock, LOCK_EX);
	while (rc == -1 && errno == EINTR);
	return rc;
}

/* look_around keeps what a namespace must have to be the job's, and the way back from it. */
static int look_around(struct view *v)
{
	v->base = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	v->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (v->base == -1 || v->root == -1 || fstat(v->base, &v->at_base) == -1 || fstat(v->root, &v->at_root) == -1 ||
	    stat("/proc/self/ns/user", &v->users) == -1)
		return -1;
	snprintf(v->name, sizeof(v->name), "trusted.gresnet.mounts.%ju", (uintmax_t)v->at_base.st_ino);
	return 0;
}

/* is_roots tells whether a namespace was made by root: a user's belongs to a user namespace. */
static bool is_roots(const struct view *v, int ns)
{
	struct stat st;
	int owner = ioctl(ns, NS_GET_USERNS);
	bool ours = owner != -1 && fstat(owner, &st) == 0 && same(&st, &v->users);

	if (owner != -1)
		close(owner);
	return ours;
}

/* go_back returns from a namespace that is another job's. */
static enum sight go_back(const struct view *v)
{
	if (setns(v->base, CLONE_NEWNS) == 0 && fchdir(v->root) == 0 && chroot(".") == 0)
		return SIGHT_NONE;
	slurm_error("gresnet: job %u: return to the mount namespace of the step: %m", v->job);
	return SIGHT_LOST;
}

/* open_made opens the namespace that is noted, if a task is in it. It returns -1 with errno 0
 * where it is not. */
static int open_made(const struct view *v, pid_t task)
{
	char path[sizeof("/proc/2147483647/ns/mnt")];
	struct stat st;
	int ns;

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)task);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns == -1) {
		errno = errno == ENOENT || errno == ESRCH ? 0 : errno;
		return -1;
	}
	if (fstat(ns, &st) == 0 && st.st_dev == v->at_base.st_dev && st.st_ino == v->made && is_roots(v, ns))
		return ns;
	close(ns);
	errno = 0;
	return -1;
}

/* enter_with enters the namespace that is noted where a task is still that was put into it. */
static enum sight enter_with(const struct view *v, pid_t task)
{
	struct stat root, devices;
	int ns = open_made(v, task);
	int rc;

	if (ns == -1)
		return errno ? unknown(v, "open the mount namespace of one") : SIGHT_NONE;
	rc = setns(ns, CLONE_NEWNS);
	close(ns);
	if (rc == -1)
		return unknown(v, "enter their mount namespace");
	if (stat("/", &root) == 0 && same(&root, &v->at_root) && stat(DEVICES, &devices) == 0 && same(&devices, &v->devices))
		return SIGHT_ENTERED;
	return go_back(v);
}

/* find asks one task after the other, and forgets those that are in the namespace no more. */
static enum sight find(struct view *v)
{
	enum sight sight = SIGHT_NONE;
	size_t gone = 0;

	while (gone < v->tasks && (sight = enter_with(v, v->task[gone])) == SIGHT_NONE)
		gone++;
	v->tasks -= gone;
	memmove(v->task, v->task + gone, v->tasks * sizeof(v->task[0]));
	return sight;
}

/* make_room forgets all tasks that are in the namespace no more, where they are too many. */
static void make_room(struct view *v)
{
	size_t kept = 0;
	int ns;

	if (v->tasks < TASKS_MAX)
		return;
	for (size_t i = 0; i < v->tasks; i++) {
		ns = open_made(v, v->task[i]);
		if (ns == -1 && !errno)
			continue;
		v->task[kept++] = v->task[i];
		if (ns != -1)
			close(ns);
	}
	v->tasks = kept;
}

static enum sight look(struct view *v, const struct lease *lease)
{
	/* What is wrong with the device nodes is make's to say. */
	if (fstatat(lease->dir, "dev", &v->devices, AT_SYMLINK_NOFOLLOW) == -1)
		return SIGHT_UNKNOWN;
	if (take_lock(v, lease) || look_around(v))
		return unknown(v, "look for their mount namespace");
	if (read_note(v) == SIGHT_UNKNOWN)
		return SIGHT_UNKNOWN;
	return find(v);
}

/* note says where this task is now. */
static void note(struct view *v, enum sight sight)
{
	struct stat now;

	if (sight == SIGHT_NONE) {
		if (stat("/proc/self/ns/mnt", &now) == -1) {
			unknown(v, "look at this task's");
			return;
		}
		v->made = now.st_ino;
	}
	make_room(v);
	if (v->tasks == TASKS_MAX)
		return;
	v->task[v->tasks++] = getpid();
	write_note(v);
}

static void close_all(const struct view *v)
{
	const int all[] = {v->lock, v->base, v->root};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i] != -1)
			close(all[i]);
}

int view_enter(const struct lease *lease, const char *state, view_maker *make)
{
	struct view v = {.job = lease->job, .lock = -1, .base = -1, .root = -1};
	enum sight sight = look(&v, lease);
	int rc = -1;

	if (sight == SIGHT_LOST)
		goto out;
	if (sight != SIGHT_ENTERED && make(lease, state))
		goto out;
	if (sight != SIGHT_UNKNOWN)
		note(&v, sight);
	rc = 0;
out:
	close_all(&v);
	return rc;
}
