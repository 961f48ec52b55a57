/* The mounts that a job's tasks have together. Each case is a first task that stays and a second
 * one, both children of one process, which is what slurmstepd is to them. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <security/pam_modules.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "case.h"
#include "sandbox.h"
#include "slurm.h"

#define MARK "/mnt/of-the-first-task"

struct row {
	const char *name;
	bool shared;
	const char *env;       /* the lease's, NULL: a good one */
	bool session;          /* the second is a session of ssh */
	void (*step)(void);    /* done in slurmstepd's process before */
	void (*after)(void);   /* done in the first task's process when it is inside */
	void (*between)(void); /* done in slurmstepd's process when the first task is there */
	void (*second)(void);  /* done in the second task's process before */
	void (*then)(void);    /* checked there when it is inside */
};

static pid_t first;       /* the first task */
static char noted_as[64]; /* the attribute with the tasks that came from this step's mount namespace */

static void be_task(void)
{
	char *argv[] = {NULL};

	slurm = (struct slurm){.context = S_CTX_REMOTE, .job = 4711, .restarts = 2, .uid = 1000, .tasks = 1};
	must(!slurm_spank_init(NULL, 0, argv), "init");
	check(slurm_spank_task_init_privileged(NULL, 0, argv) == 0, "the callback fails");
	check_said(NULL);
}

/* run_first is a task that mounts something, and stays. */
static void run_first(const struct row *row, int ready)
{
	be_task();
	must(!mount("sandbox", "/mnt", "tmpfs", 0, NULL), "/mnt");
	write_bytes(MARK, "", 0);
	if (row->after)
		row->after();
	must(write(ready, "", 1) == 1, "pipe");
	for (;;)
		pause();
}

static void namespace_of(pid_t pid, struct stat *st)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	must(!stat(path, st), path);
}

static void check_root(const struct stat *root)
{
	struct stat now;

	must(!stat("/", &now), "/");
	check(now.st_dev == root->st_dev && now.st_ino == root->st_ino, "another root directory");
}

static void run_second(const void *argument)
{
	const struct row *row = argument;
	struct stat root, base, own;
	int fds;

	if (row->second)
		row->second();
	must(!stat("/", &root), "/");
	namespace_of(getpid(), &base);
	fds = count_entries("/proc/self/fd");
	if (row->session)
		check(session_run() == PAM_SUCCESS, "the session does not begin");
	else
		be_task();
	namespace_of(getpid(), &own);
	check(own.st_ino != base.st_ino, "no mount namespace of the job's");
	check((access(MARK, F_OK) == 0) == row->shared, row->shared ? "what the first task mounted is not there" : "what the first task mounted is there");
	check(access("/dev/infiniband/uverbs0", F_OK) == -1 && !access("/dev/infiniband/uverbs1", F_OK), "other device nodes than the job's");
	check(access("/sys/class/infiniband/mlx5_0", F_OK) == -1 && !access("/sys/class/infiniband/mlx5_1", F_OK), "other HCAs than the job's");
	check(access("/sys/class/net/host0", F_OK) == (job_netns() ? -1 : 0), "another network's /sys");
	check(count_entries("/proc/self/fd") == fds, "a descriptor leaks");
	check_root(&root);
	if (row->then)
		row->then();
}

static void run_step(const void *argument)
{
	const struct row *row = argument;
	struct stat st;
	int ready[2];
	char byte;

	if (row->step)
		row->step();
	must(!pipe2(ready, O_CLOEXEC), "pipe");
	first = fork();
	must(first != -1, "fork");
	if (first == 0) {
		alarm(HANGS);
		run_first(row, ready[1]);
	}
	must(read(ready[0], &byte, 1) == 1, "the first task");
	namespace_of(getpid(), &st);
	snprintf(noted_as, sizeof(noted_as), "trusted.gresnet.mounts.%ju", (uintmax_t)st.st_ino);
	check(access(MARK, F_OK) == -1, "what the first task mounted is on the node");
	if (row->between)
		row->between();
	in_child(run_second, row);
	kill(first, SIGKILL);
	waitpid(first, NULL, 0);
}

static void set_note(const char *text)
{
	must(!setxattr(LEASE, noted_as, text, strlen(text), 0), noted_as);
}

/* note_first has the note say that the first task is in the namespace where it is. */
static void note_first(void)
{
	char text[64];
	struct stat st;

	namespace_of(first, &st);
	snprintf(text, sizeof(text), "%ju %d", (uintmax_t)st.st_ino, (int)first);
	set_note(text);
}

static void end_first(void) { must(!kill(first, SIGKILL) && waitpid(first, NULL, 0) == first, "end the first task"); }
static void own_container(void)
{
	must(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) &&
	     !mount("sandbox", "/tmp", "tmpfs", 0, NULL), "what job_container/tmpfs does");
}
static void own_container_and_pids(void) { own_container(); own_pids(); }
static void adopt(void) { must(!mount("/run/cgroup", "/proc/self/cgroup", NULL, MS_BIND, NULL), "/proc/self/cgroup"); }
static void users_namespace(void) { must(!unshare(CLONE_NEWUSER | CLONE_NEWNS), "make a user's namespaces"); }
static void others_devices(void) { must(!mount("sandbox", "/dev/infiniband", "tmpfs", 0, NULL), "/dev/infiniband"); }
/* folder_as_root has the step's root directory not be that of its mount namespace. */
static void folder_as_root(void)
{
	static const char *const bound[] = {"proc", "sys", "dev", "run"};
	char from[64], to[64];

	own_container();
	must(!mkdir("/tmp/@", 0755) && !mount("/tmp/@", "/tmp/@", NULL, MS_BIND, NULL) && !mkdir("/tmp/@/mnt", 0755), "/tmp/@");
	for (size_t i = 0; i < sizeof(bound) / sizeof(bound[0]); i++) {
		snprintf(from, sizeof(from), "/%s", bound[i]);
		snprintf(to, sizeof(to), "/tmp/@/%s", bound[i]);
		must(!mkdir(to, 0755) && !mount(from, to, NULL, MS_BIND | MS_REC, NULL), to);
	}
	must(!chroot("/tmp/@") && !chdir("/"), "chroot");
}
/* devices_at_root has the job's device nodes be at the namespace's own root directory, too. */
static void devices_at_root(void)
{
	int ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

	must(ns != -1 && !setns(ns, CLONE_NEWNS), "leave the folder");
	must(!mount(LEASE "/dev", "/dev/infiniband", NULL, MS_BIND | MS_REC, NULL), "/dev/infiniband");
	close(ns);
}
static void no_note(void) { set_note("no numbers"); }

/* note_gone has the note say that besides the first task many are there that are not. */
static void note_gone(int before, int behind)
{
	char text[8192];
	struct stat st;
	size_t have;

	namespace_of(first, &st);
	have = (size_t)snprintf(text, sizeof(text), "%ju", (uintmax_t)st.st_ino);
	for (int i = 0; i < before; i++)
		have += (size_t)snprintf(text + have, sizeof(text) - have, " 2147483646");
	have += (size_t)snprintf(text + have, sizeof(text) - have, " %d", (int)first);
	for (int i = 0; i < behind; i++)
		have += (size_t)snprintf(text + have, sizeof(text) - have, " %d", (int)getpid());
	set_note(text);
}
static void many_before(void) { note_gone(511, 0); }
static void many_behind(void) { note_gone(0, 511); }

/* both_noted: and nobody else is any more. */
static void both_noted(void)
{
	char text[8192], want[128];
	struct stat st;
	ssize_t n = getxattr(LEASE, noted_as, text, sizeof(text) - 1);

	must(n >= 0, noted_as);
	text[n] = '\0';
	namespace_of(getpid(), &st);
	snprintf(want, sizeof(want), "%ju %d %d", (uintmax_t)st.st_ino, (int)first, (int)getpid());
	check(!strcmp(text, want), text);
}

static const struct row rows[] = {
	{"a second task sees what the first has mounted", true},
	{"a second task of a job in the node's network sees what the first has mounted", true, HEAD "GRESNET_NETNS=node\nGRESNET_HCAS=mlx5_1\n"},
	{"a second task in a job container sees what the first has mounted", true, .step = own_container},
	{"a second task in a job container with processes of its own sees what the first has mounted", true,
	 .step = own_container_and_pids},
	{"a session of ssh sees what a task has mounted", true, .session = true, .step = session_prepare, .second = adopt},
	{"a task of another container does not", false, .second = own_container},
	{"a task that comes when the first has ended does not", false, .between = end_first},
	{"a note that makes no sense", false, .between = no_note},
	{"a task noted behind as many as can be that have ended", true, .between = many_before, .then = both_noted},
	{"a task noted before as many as can be that are elsewhere", true, .between = many_behind, .then = both_noted},
	{"a namespace that the job's user has made is not entered", false, .after = users_namespace, .between = note_first},
	{"a namespace with other device nodes is left again", false, .after = others_devices, .between = note_first},
	{"a namespace with another root directory is left again", false, .step = folder_as_root, .after = devices_at_root},
};

/* run_many starts tasks at once. Each task stays until all are inside. */
static void run_many(const void *argument)
{
	enum { TASKS = 32 };
	uintmax_t mine[TASKS];
	struct stat st;
	int in[2], out[2];

	(void)argument;
	must(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC), "pipe");
	for (int i = 0; i < TASKS; i++) {
		pid_t task = fork();

		must(task != -1, "fork");
		if (task)
			continue;
		alarm(HANGS);
		close(out[1]);
		be_task();
		namespace_of(getpid(), &st);
		mine[0] = st.st_ino;
		must(write(in[1], mine, sizeof(mine[0])) == sizeof(mine[0]) && read(out[0], mine, 1) == 0, "pipe");
		_exit(0);
	}
	for (int i = 0; i < TASKS; i++) {
		must(read(in[0], &mine[i], sizeof(mine[i])) == sizeof(mine[i]), "pipe");
		check(mine[i] == mine[0], "two tasks are in two mount namespaces");
	}
	close(out[1]);
	for (int i = 0; i < TASKS; i++)
		must(wait(NULL) != -1, "wait");
}

int view_tests(int *all)
{
	int passed = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++, (*all)++) {
		lease_make();
		if (rows[i].env) {
			must(!umount(LEASE "/netns") && !unlink(LEASE "/netns"), "netns");
			write_env(rows[i].env);
		}
		in_child(run_step, &rows[i]);
		lease_drop();
		passed += report(rows[i].name);
	}
	lease_make();
	in_child(run_many, NULL);
	lease_drop();
	passed += report("tasks that begin at once are in one mount namespace");
	(*all)++;
	return passed;
}
