/* Failures of the kernel's and of Slurm's: of the calls that the plugin makes for a
 * task each fails once. The task then fails, and says why, or is inside. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <security/pam_modules.h>
#include <security/pam_modutil.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "case.h"
#include "sandbox.h"
#include "slurm.h"

/* The call that fails: which one, and how many of its name are still to succeed. */
static const char *name;
static int before;
static bool armed;
static bool for_good; /* it goes on failing */
static bool *failed; /* shared with the harness */
static bool second;  /* another task of the job is there */

static bool fails(const char *called)
{
	if (!armed || (*failed && !for_good) || strcmp(called, name) || before-- > 0)
		return false;
	*failed = true;
	errno = EIO;
	return true;
}

/* The linker has the plugin call these: WRAPPED in the Makefile. */
#define WRAP(type, call, parameters, arguments, failure)                        \
	type __real_##call parameters;                                          \
	type __wrap_##call parameters;                                          \
	type __wrap_##call parameters { return fails(#call) ? (failure) : __real_##call arguments; }

WRAP(int, mount, (const char *a, const char *b, const char *c, unsigned long d, const void *e), (a, b, c, d, e), -1)
WRAP(int, umount2, (const char *a, int b), (a, b), -1)
WRAP(int, setns, (int a, int b), (a, b), -1)
WRAP(int, unshare, (int a), (a), -1)
WRAP(int, fstat, (int a, struct stat *b), (a, b), -1)
WRAP(int, fstatat, (int a, const char *b, struct stat *c, int d), (a, b, c, d), -1)
WRAP(int, fchdir, (int a), (a), -1)
WRAP(int, chroot, (const char *a), (a), -1)
WRAP(int, flock, (int a, int b), (a, b), -1)
WRAP(ssize_t, fgetxattr, (int a, const char *b, void *c, size_t d), (a, b, c, d), -1)
WRAP(int, fsetxattr, (int a, const char *b, const void *c, size_t d, int e), (a, b, c, d, e), -1)
WRAP(int, stat, (const char *a, struct stat *b), (a, b), -1)
WRAP(int, statvfs, (const char *a, struct statvfs *b), (a, b), -1)
WRAP(int, access, (const char *a, int b), (a, b), -1)
WRAP(ssize_t, read, (int a, void *b, size_t c), (a, b, c), -1)
WRAP(ssize_t, write, (int a, const void *b, size_t c), (a, b, c), -1)
WRAP(int, fchmod, (int a, mode_t b), (a, b), -1)
WRAP(ssize_t, readlinkat, (int a, const char *b, char *c, size_t d), (a, b, c, d), -1)
WRAP(int, symlinkat, (const char *a, int b, const char *c), (a, b, c), -1)
WRAP(struct dirent *, readdir, (DIR * a), (a), NULL)
WRAP(FILE *, fopen, (const char *a, const char *b), (a, b), NULL)
WRAP(DIR *, opendir, (const char *a), (a), NULL)
WRAP(char *, strdup, (const char *a), (a), NULL)
WRAP(char *, strndup, (const char *a, size_t b), (a, b), NULL)
WRAP(void *, calloc, (size_t a, size_t b), (a, b), NULL)
WRAP(void *, mmap, (void *a, size_t b, int c, int d, int e, off_t f), (a, b, c, d, e, f), MAP_FAILED)
WRAP(int, socket, (int a, int b, int c), (a, b, c), -1)
WRAP(int, bind, (int a, const struct sockaddr *b, socklen_t c), (a, b, c), -1)
WRAP(int, listen, (int a, int b), (a, b), -1)
WRAP(int, eventfd, (unsigned a, int b), (a, b), -1)
WRAP(int, getrlimit, (int a, struct rlimit *b), (a, b), -1)
WRAP(int, pthread_create, (pthread_t * a, const pthread_attr_t *b, void *(*c)(void *), void *d), (a, b, c, d), EAGAIN)
WRAP(spank_err_t, spank_setenv, (spank_t a, const char *b, const char *c, int d), (a, b, c, d), ESPANK_ERROR)
WRAP(spank_err_t, spank_unsetenv, (spank_t a, const char *b), (a, b), ESPANK_ERROR)
WRAP(spank_err_t, spank_option_register, (spank_t a, struct spank_option *b), (a, b), ESPANK_ERROR)

WRAP(int, pam_get_item, (const pam_handle_t *a, int b, const void **c), (a, b, c), PAM_SYSTEM_ERR)
WRAP(struct passwd *, pam_modutil_getpwnam, (pam_handle_t * a, const char *b), (a, b), NULL)
WRAP(int, pam_putenv, (pam_handle_t * a, const char *b), (a, b), PAM_BUF_ERR)

int __wrap_asprintf(char **text, const char *format, ...);
int __wrap_asprintf(char **text, const char *format, ...)
{
	va_list args;
	int rc;

	if (fails("asprintf"))
		return -1;
	va_start(args, format);
	rc = vasprintf(text, format, args);
	va_end(args);
	return rc;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	return fails("open") ? -1 : __real_open(path, flags, 0600);
}

int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...)
{
	return fails("openat") ? -1 : __real_openat(dir, path, flags, 0600);
}

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
	return fails("ioctl") ? -1 : __real_ioctl(fd, request);
}

spank_err_t __real_spank_get_item(spank_t spank, spank_item_t item, ...);
spank_err_t __wrap_spank_get_item(spank_t spank, spank_item_t item, ...);
spank_err_t __wrap_spank_get_item(spank_t spank, spank_item_t item, ...)
{
	va_list args;
	void *to;

	va_start(args, item);
	to = va_arg(args, void *);
	va_end(args);
	return fails("spank_get_item") ? ESPANK_ERROR : __real_spank_get_item(spank, item, to);
}

static const char *const calls[] = {
	"mount", "umount2", "setns", "unshare", "fstat", "fstatat", "flock", "fgetxattr", "fsetxattr", "stat", "statvfs", "access", "read", "write", "fchmod", "readlinkat", "symlinkat", "readdir", "fopen", "opendir",
	"strdup", "strndup", "calloc", "mmap", "socket", "bind", "listen", "eventfd", "getrlimit", "pthread_create", "spank_setenv",
	"spank_unsetenv", "spank_option_register", "open", "openat", "ioctl", "spank_get_item",
};

/* What is called for a job that has no lease and should have one. */
static const char *const absent_calls[] = {"fstat", "fstatat", "openat", "open", "readlinkat", "symlinkat", "read", "spank_get_item"};

/* What a session of ssh calls. */
static const char *const session_calls[] = {
	"mount", "umount2", "setns", "unshare", "fstat", "fstatat", "flock", "fgetxattr", "fsetxattr", "stat", "statvfs", "access", "read", "write", "fchmod", "readlinkat", "symlinkat", "readdir", "fopen", "opendir", "open", "openat", "ioctl",
	"asprintf", "pam_get_item", "pam_modutil_getpwnam", "pam_putenv",
};

/* What a task calls to share the mounts of another. */
static const char *const view_calls[] = {
	"setns", "fstat", "fstatat", "flock", "fgetxattr", "fsetxattr", "stat", "open", "openat", "ioctl",
};

/* What it calls to leave a namespace again. */
static const char *const return_calls[] = {"setns", "fchdir", "chroot"};

/* start_server is what slurmstepd's PMIx server is to the plugin. It returns the port. */
static in_port_t start_server(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	must(fd != -1 && !bind(fd, (struct sockaddr *)&at, sizeof(at)) && !listen(fd, 8) &&
	     !getsockname(fd, (struct sockaddr *)&at, &length), "a PMIx server");
	return ntohs(at.sin_port);
}

/* set_environment is what the user has set, or another plugin's job, or Slurm. */
static void set_environment(in_port_t port)
{
	char uri[64];

	snprintf(uri, sizeof(uri), "s.0;tcp4://127.0.0.1:%u", port);
	spank_setenv(NULL, "PMIX_SERVER_URI2", uri, 1);
	spank_setenv(NULL, "PMIX_NAMESPACE", "slurm.pmix.4711.0", 1);
	spank_setenv(NULL, "GRESNET_GAVE_NCCL_IB_HCA", "x", 1);
}

/* run_callbacks has the calls of the plugin's fail, and none of Slurm's. What
 * slurmstepd does for the task's sake comes first: it is the same process. */
static int run_callbacks(in_port_t port)
{
	char *argv[] = {NULL};
	int rc;

	set_environment(9);
	armed = true;
	rc = slurm_spank_init(NULL, 0, argv);
	/* Its thread is slurmstepd's: a process with several enters no mount namespace. */
	if (!rc && !second)
		rc = slurm_spank_task_post_fork(NULL, 0, argv);
	if (!rc)
		rc = slurm_spank_task_init_privileged(NULL, 0, argv);
	armed = false;
	set_environment(port);
	armed = true;
	if (!rc)
		rc = start_program(argv);
	armed = false;
	return rc;
}

static void run(const void *argument)
{
	char *argv[] = {NULL};
	in_port_t port;
	int files, rc;

	(void)argument;
	slurm = (struct slurm){.context = S_CTX_REMOTE, .job = 4711, .restarts = 2, .uid = 1000, .tasks = 1};
	port = start_server();
	files = count_entries("/proc/self/fd");
	rc = run_callbacks(port);
	if (rc == 0) {
		check(job_netns(), "the task runs in the node's network");
		check(access("/dev/infiniband/uverbs0", F_OK) == -1, "the task has the node's devices");
		check(access("/sys/class/net/host0", F_OK) == -1, "the task has the node's /sys");
		check(access("/sys/class/infiniband/mlx5_0", F_OK) == -1, "the task sees the node's HCAs");
		check(strcmp(task_env("PMIX_SERVER_URI2"), "s.0;tcp4://127.0.0.1:9"), "the task has another server");
	} else {
		check(rc == -1, "it returns neither 0 nor -1");
		check(*slurm.said, "no reason is given");
	}
	slurm_spank_exit(NULL, 0, argv);
	check(count_entries("/proc/self/fd") == files, "a descriptor is left");
	check(alone(), "a thread is left");
}

/* start_first starts another task of the job, which stays, and may have other device nodes. */
static pid_t start_first(bool strange)
{
	char *argv[] = {NULL};
	char byte;
	int ready[2];
	pid_t first;

	must(!pipe2(ready, O_CLOEXEC), "pipe");
	first = fork();
	must(first != -1, "fork");
	if (first == 0) {
		alarm(HANGS);
		slurm = (struct slurm){.context = S_CTX_REMOTE, .job = 4711, .restarts = 2, .uid = 1000, .tasks = 1};
		must(!slurm_spank_init(NULL, 0, argv) && !slurm_spank_task_init_privileged(NULL, 0, argv), "the first task");
		must(!strange || !mount("sandbox", "/dev/infiniband", "tmpfs", 0, NULL), "/dev/infiniband");
		must(write(ready[1], "", 1) == 1, "pipe");
		for (;;)
			pause();
	}
	must(read(ready[0], &byte, 1) == 1, "the first task");
	close(ready[0]);
	close(ready[1]);
	return first;
}

static void run_after(bool strange)
{
	pid_t first = start_first(strange);

	second = true;
	run(NULL);
	must(!kill(first, SIGKILL) && waitpid(first, NULL, 0) == first, "end the first task");
}
static void run_second(const void *argument) { (void)argument; run_after(false); }
static void run_beside_strange(const void *argument) { (void)argument; run_after(true); }


/* run_absent: of a job that should have a lease and has none no task may run. */
static void run_absent(const void *argument)
{
	char *argv[] = {NULL};
	int rc;

	(void)argument;
	slurm = (struct slurm){.context = S_CTX_REMOTE, .job = 4711, .restarts = 2, .uid = 1000, .tasks = 1, .started = time(NULL) + 60,
			       .gres = "nic:1(IDX:0)"};
	must(!rename(LEASE, STATE "/jobs/1") && !mkdir(STATE "/runs", 0700) && !symlink("nic", STATE "/runs/expected"), "no lease");
	armed = true;
	rc = slurm_spank_init(NULL, 0, argv);
	if (!rc)
		rc = slurm_spank_task_init_privileged(NULL, 0, argv);
	if (!rc)
		rc = start_program(argv);
	armed = false;
	check(rc == -1, "the task runs");
	check(*slurm.said, "no reason is given");
}

/* run_session: of a session that fails nothing may go on as without a lease, PAM_IGNORE. */
static void run_session(const void *argument)
{
	int files, rc;

	(void)argument;
	session_prepare();
	files = count_entries("/proc/self/fd");
	armed = true;
	rc = session_run();
	armed = false;
	if (rc == PAM_SUCCESS) {
		check(job_netns(), "the session is in the node's network");
		check(access("/dev/infiniband/uverbs0", F_OK) == -1, "the session has the node's devices");
		check(access("/sys/class/net/host0", F_OK) == -1, "the session has the node's /sys");
		check(access("/sys/class/infiniband/mlx5_0", F_OK) == -1, "the session sees the node's HCAs");
	} else {
		check(rc == PAM_SESSION_ERR, "it returns neither PAM_SUCCESS nor PAM_SESSION_ERR");
		check(*slurm.said, "no reason is given");
	}
	check(count_entries("/proc/self/fd") == files, "a descriptor is left");
}

/* run_failure has a call fail, the first of its name or a later one. It returns false
 * if there is none any more. */
static bool run_failure(void (*of)(const void *), const char *call, int nth)
{
	*failed = false;
	name = call;
	before = nth;
	lease_make();
	write_env(HEAD NETNS "GRESNET_HCAS=mlx5_1\nNCCL_IB_HCA==mlx5_1:1\n");
	in_child(of, NULL);
	lease_drop();
	check(*failed || nth > 0, "it is never called");
	return *failed;
}

/* inject has each of a number of calls fail, as often as it is called. */
static int inject(void (*of)(const void *), const char *what, const char *const *call, size_t count, int *all)
{
	char title[64];
	int passed = 0;

	for (size_t i = 0; i < count; i++) {
		int nth = 0;
		bool more;

		do {
			more = run_failure(of, call[i], nth++);
			snprintf(title, sizeof(title), "%scall %d of %s fails", what, nth, call[i]);
			passed += report(title);
			(*all)++;
		} while (more);
	}
	return passed;
}

/* run_callback: a task that cannot even be shut in is one that Slurm must end. */
static void run_callback(const void *argument)
{
	char *argv[] = {NULL};
	int rc;

	(void)argument;
	slurm = (struct slurm){.context = S_CTX_REMOTE, .job = 4711, .restarts = 2, .uid = 1000, .tasks = 1};
	must(!slurm_spank_init(NULL, 0, argv), "init");
	armed = true;
	rc = slurm_spank_task_init_privileged(NULL, 0, argv);
	armed = false;
	check(rc == -1, "it does not return -1");
}

static int inject_for_good(int *all)
{
	static const char *const call[] = {"unshare", "mount"};
	char title[64];
	int passed = 0;

	for_good = true;
	for (size_t i = 0; i < sizeof(call) / sizeof(call[0]); i++, (*all)++) {
		run_failure(run_callback, call[i], 0);
		snprintf(title, sizeof(title), "every call of %s fails", call[i]);
		passed += report(title);
	}
	for_good = false;
	return passed;
}

int inject_tests(int *all)
{
	int passed;

	failed = mmap(NULL, sizeof(*failed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(failed != MAP_FAILED, "mmap");
	passed = inject(run, "", calls, sizeof(calls) / sizeof(calls[0]), all);
	passed += inject(run_second, "second task: ", view_calls, sizeof(view_calls) / sizeof(view_calls[0]), all);
	passed += inject(run_beside_strange, "a namespace is left again: ", return_calls, sizeof(return_calls) / sizeof(return_calls[0]), all);
	passed += inject_for_good(all);
	passed += inject(run_absent, "no lease: ", absent_calls, sizeof(absent_calls) / sizeof(absent_calls[0]), all);
	return passed + inject(run_session, "session: ", session_calls, sizeof(session_calls) / sizeof(session_calls[0]), all);
}
