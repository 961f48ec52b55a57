/* The PMIx relay's tests. A process is slurmstepd, a child of it the task, and
 * another the server, which returns what it gets. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "sandbox.h"
#include "slurm.h"

enum { TASKS = 2, MOST = TASKS + 16, MUCH = 1 << 20, SLOW_MS = HANGS * 1000 / 4, SHORT_MS = 200 };

static in_port_t server_port; /* 0: there is none */
static pid_t server;
static int listener = -1;

static int listen_on(const char *address, in_port_t *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	must(inet_pton(AF_INET, address, &at.sin_addr) == 1, address);
	must(fd != -1 && !bind(fd, (struct sockaddr *)&at, sizeof(at)) && !listen(fd, 128) &&
	     !getsockname(fd, (struct sockaddr *)&at, &length), "listen");
	if (port)
		*port = ntohs(at.sin_port);
	return fd;
}

static void echo(int fd)
{
	char bytes[4096];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		for (ssize_t sent = 0, now; sent < n; sent += now) {
			now = write(fd, bytes + sent, (size_t)(n - sent));
			if (now <= 0)
				return;
		}
}

static void hang_up(int from)
{
	int fd;

	while ((fd = accept(from, NULL, NULL)) != -1)
		close(fd);
	_exit(0);
}

static void serve_all(int from)
{
	int fd;

	signal(SIGCHLD, SIG_IGN);
	while ((fd = accept(from, NULL, NULL)) != -1) {
		if (fork() == 0) {
			echo(fd);
			_exit(0);
		}
		close(fd);
	}
	_exit(0);
}

/* What slurmstepd has in a case. */
static int fds_before;
static void no_server(void) {}
static void start(void (*serve)(int))
{
	listener = listen_on("127.0.0.1", &server_port);
	listen_on("0.0.0.0", NULL); /* Slurm's own */
	server = fork();
	must(server != -1, "fork");
	if (server == 0)
		serve(listener);
}
static void one_server(void) { start(serve_all); }
static void rude_server(void) { start(hang_up); }
static void unnamed_server(void) { start(hang_up); }
static void two_servers(void) { one_server(); listen_on("127.0.0.1", NULL); }
static void server_elsewhere(void) { listen_on("127.0.0.2", NULL); }
static void few_files(void)
{
	struct rlimit few = {64, 64};

	one_server();
	must(!setrlimit(RLIMIT_NOFILE, &few), "limit");
}
static void raised_files(void)
{
	struct rlimit soft;

	one_server();
	must(!getrlimit(RLIMIT_NOFILE, &soft), "limit");
	soft.rlim_cur = 64;
	must(!setrlimit(RLIMIT_NOFILE, &soft), "limit");
}
static void no_lease(void) { must(!rename(LEASE, STATE "/jobs/1"), LEASE); }

static void in_nodes_network(void)
{
	one_server();
	must(!umount(LEASE "/netns") && !unlink(LEASE "/netns"), "netns");
	write_env(HEAD "GRESNET_NETNS=node\n");
}

/* What Slurm sets with --x11. A display of those that Slurm has may be somebody else's here. */
static in_port_t display;
static void have_display(void (*serve)(int))
{
	char name[32];
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	listener = socket(AF_INET, SOCK_STREAM, 0);
	must(listener != -1, "socket");
	for (display = 6020; display < 6100; display++) {
		at.sin_port = htons(display);
		if (!bind(listener, (struct sockaddr *)&at, sizeof(at)))
			break;
	}
	must(!listen(listener, 128), "listen");
	server = fork();
	must(server != -1, "fork");
	if (server == 0)
		serve(listener);
	must(!close(listener), "close"); /* it is another process's */
	snprintf(name, sizeof(name), "localhost:%d.0", display - 6000);
	spank_setenv(NULL, "DISPLAY", name, 1);
}
static void one_display(void) { have_display(serve_all); }
/* take_display has somebody else have the display's port in the job. */
static void take_display(int shared)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(display), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int here = open("/proc/self/ns/net", O_RDONLY), job = open(LEASE "/netns", O_RDONLY), fd;

	must(here != -1 && job != -1 && !setns(job, CLONE_NEWNET), "enter the job");
	fd = socket(AF_INET, SOCK_STREAM, 0);
	must(fd != -1 && !setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shared, sizeof(shared)) &&
	     !bind(fd, (struct sockaddr *)&at, sizeof(at)), "bind");
	must(!setns(here, CLONE_NEWNET) && !close(here) && !close(job), "leave the job");
}
static void two_steps(void) { one_display(); take_display(1); }
static void taken_display(void) { one_display(); take_display(0); }
/* What Slurm says of an srun that is in the job, on the job's own node and on another one. */
static void own_address(void)
{
	char text[512];
	struct stat st;

	must(!stat(LEASE "/netns", &st), "stat");
	snprintf(text, sizeof(text), HEAD "GRESNET_NETNS=%ju:%ju\nGRESNET_UPLINK=198.19.0.2\nGRESNET_ADDRESS=192.0.2.1\n",
		 (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	write_env(text);
}
static void launcher_here(void)
{
	spank_setenv(NULL, "SLURM_LAUNCH_NODE_IPADDR", "198.19.0.2", 1);
	spank_setenv(NULL, "SLURM_SRUN_COMM_HOST", "192.0.2.7", 1);
}
static void launcher_named(void)
{
	check_env("SLURM_LAUNCH_NODE_IPADDR", "192.0.2.1");
	check_env("SLURM_SRUN_COMM_HOST", "192.0.2.7");
}
static void ssh_display(void)
{
	spank_setenv(NULL, "DISPLAY", "localhost:10.0", 1);
	display = 6010;
}
static void display_beyond(void)
{
	spank_setenv(NULL, "DISPLAY", "localhost:100.0", 1);
	display = 6100;
}
static void long_display(void) /* in 32 bits it is display 20 */
{
	spank_setenv(NULL, "DISPLAY", "localhost:4294967316.0", 1);
	display = 6020;
}
/* set_uris is what Slurm's plugin does before task_init. */
static void set_uris(void)
{
	char uri[128];

	spank_setenv(NULL, "PMIX_NAMESPACE", "slurm.pmix.4711.0", 1);
	snprintf(uri, sizeof(uri), "pmix-server.77;tcp4://127.0.0.1:%u", server_port);
	spank_setenv(NULL, "PMIX_SERVER_URI2", uri, 1);
	snprintf(uri, sizeof(uri), "pmix-server.77;tcp4://127.0.0.1:%u;more", server_port);
	spank_setenv(NULL, "PMIX_SERVER_URI41", uri, 1);
	spank_setenv(NULL, "PMIX_SERVER_URI_USERS", "tcp4://127.0.0.1:9", 1);
	spank_setenv(NULL, "PMIX_SERVER_URI9", "nonsense", 1);
}

/* What a user has set, or a job that an MPI program submitted has of the program. */
static void others_name(void) { spank_setenv(NULL, "PMIX_NAMESPACE", "slurm.pmix.1.0", 1); }
static void many_uris(void)
{
	char name[64];

	others_name();
	for (int i = 0; i < 32; i++) {
		snprintf(name, sizeof(name), "PMIX_SERVER_URI%d", 100 + i);
		spank_setenv(NULL, name, "other.1;tcp4://127.0.0.1:9", 1);
	}
	spank_setenv(NULL, "PMIX_SERVER_URI_WITH_A_NAME_THAT_IS_LONGER_THAN_ANY_OF_THE_LIBRARYS", "x", 1);
	spank_setenv(NULL, "PMIX_SERVER_TMPDIR", "users", 1);
}

static in_port_t port_of(const char *name)
{
	const char *value = task_env(name);
	const char *at = value ? strstr(value, "127.0.0.1:") : NULL;

	return at ? (in_port_t)atoi(at + strlen("127.0.0.1:")) : 0;
}

static int reach(in_port_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	must(fd != -1, "socket");
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == -1) {
		close(fd);
		return -1;
	}
	return fd;
}

/* answers tells whether a byte comes back in time. */
static bool answers(int fd, int ms)
{
	struct pollfd in = {.fd = fd, .events = POLLIN};
	char byte = 'x';

	return poll(&in, 1, ms) == 1 && read(fd, &byte, 1) == 1 && byte == 'q';
}

static bool ask(int fd, int ms) { return write(fd, "q", 1) == 1 && answers(fd, ms); }

/* What a task does, in the job's namespace and with its environment. */
static void same_environment(void)
{
	check(port_of("PMIX_SERVER_URI2") == server_port, "PMIX_SERVER_URI2 has changed");
}
static void redirected(void)
{
	char uri[128];
	in_port_t port = port_of("PMIX_SERVER_URI2");

	check(port != 0 && port != server_port, "PMIX_SERVER_URI2 has no new port");
	snprintf(uri, sizeof(uri), "pmix-server.77;tcp4://127.0.0.1:%u", port);
	check_env("PMIX_SERVER_URI2", uri);
	snprintf(uri, sizeof(uri), "pmix-server.77;tcp4://127.0.0.1:%u;more", port);
	check_env("PMIX_SERVER_URI41", uri);
	check_env("PMIX_SERVER_URI_USERS", "tcp4://127.0.0.1:9");
	check_env("PMIX_SERVER_URI9", "nonsense");
}

static void others_forgotten(void)
{
	redirected();
	check_env("PMIX_SERVER_URI100", NULL);
	check_env("PMIX_SERVER_URI131", NULL);
	check_env("PMIX_SERVER_URI_WITH_A_NAME_THAT_IS_LONGER_THAN_ANY_OF_THE_LIBRARYS", NULL);
	check_env("PMIX_SERVER_TMPDIR", "users");
}
static void no_name(void) { check_env("PMIX_NAMESPACE", NULL); }
static void others_kept(void) { check_env("PMIX_SERVER_URI100", "other.1;tcp4://127.0.0.1:9"); }

static void shows_windows(void)
{
	int fd = reach(display);

	must(fd != -1, "connect");
	check(ask(fd, SLOW_MS), "the display does not answer");
}
static void shows_none(void) { check(reach(display) == -1, "somebody takes calls for the display"); }

/* send_much writes all from a child, so that the caller can read at once. */
static void send_much(int fd)
{
	char bytes[4096];

	if (fork() != 0)
		return;
	memset(bytes, 'm', sizeof(bytes));
	for (size_t sent = 0; sent < MUCH; sent += sizeof(bytes))
		if (write(fd, bytes, sizeof(bytes)) != sizeof(bytes))
			_exit(1);
	shutdown(fd, SHUT_WR);
	_exit(0);
}

static size_t read_much(int fd)
{
	char bytes[4096];
	size_t all = 0;
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		all += (size_t)n;
	return all;
}

/* One half is closed after all is sent; the answer still comes, and its end. */
static void much(void)
{
	int fd = reach(port_of("PMIX_SERVER_URI2"));

	redirected();
	must(fd != -1, "connect");
	send_much(fd);
	check(read_much(fd) == MUCH, "not all comes back");
}

/* A peer that sends and never reads fills its own buffers and no others'. */
static void stuck(void)
{
	in_port_t port = port_of("PMIX_SERVER_URI2");
	int lazy = reach(port);
	int other = reach(port);
	char bytes[65536] = {0};
	int full = 0;

	must(lazy != -1 && other != -1 && !fcntl(lazy, F_SETFL, O_NONBLOCK), "connect");
	while (full < 3) { /* until nothing has moved for a while */
		struct pollfd out = {.fd = lazy, .events = POLLOUT};

		full = write(lazy, bytes, sizeof(bytes)) > 0 ? 0 : full + 1;
		if (full)
			poll(&out, 1, SHORT_MS);
	}
	check(ask(other, SLOW_MS), "one that does not read holds up another");
}

/* The one connection too many waits, and has its turn when another is over. */
static void too_many(void)
{
	in_port_t port = port_of("PMIX_SERVER_URI2");
	int fd[MOST + 1];

	for (int i = 0; i <= MOST; i++) {
		fd[i] = reach(port);
		must(fd[i] != -1, "connect");
	}
	for (int i = 0; i < MOST; i++)
		check(ask(fd[i], SLOW_MS), "one of those that there may be is not served");
	check(!ask(fd[MOST], SHORT_MS), "one more than there may be is served");
	close(fd[0]);
	check(answers(fd[MOST], SLOW_MS), "the one that waited is not served");
}

/* A connection that the server does not want ends, and the relay goes on. */
static void hung_up(void)
{
	char byte;

	for (int i = 0; i < MOST + 1; i++) {
		int fd = reach(port_of("PMIX_SERVER_URI2"));

		must(fd != -1, "connect");
		check(read(fd, &byte, 1) <= 0, "something answers");
		close(fd);
	}
}

/* What the program would be left with, of what listens. */
static void closed_on_exec(void)
{
	int listeners = 0;

	for (int fd = 3; fd < 64; fd++) {
		int on = 0;
		socklen_t length = sizeof(on);

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &length) == -1 || !on)
			continue;
		listeners++;
		check(fcntl(fd, F_GETFD) & FD_CLOEXEC, "the program inherits a listener");
	}
	check(listeners == 2, "the listeners are not there");
}

static const struct row {
	const char *name;
	void (*stepd)(void); /* before the fork */
	const char *says;    /* in slurmstepd */
	int want_task;       /* of start_program */
	const char *task_says;
	void (*task)(void); /* after task_init */
	char *argument;
	bool gone;      /* the server, before the task begins */
	bool elsewhere; /* post_fork is in another process, as with contain_spank */
	void (*user)(void); /* before task_init_privileged */
	bool alone;         /* srun --mpi=none */
	void (*before)(void); /* before the step begins */
} rows[] = {
	{"PMIx: much, both ways, to the end", one_server, NULL, 0, NULL, much},
	{"PMIx: one that does not read", one_server, NULL, 0, NULL, stuck},
	{"PMIx: more connections than may be", one_server, NULL, 0, NULL, too_many},
	{"PMIx: the server hangs up", rude_server, NULL, 0, NULL, hung_up},
	{"PMIx: the server is gone", rude_server, NULL, 0, NULL, hung_up, .gone = true},
	{"PMIx: listeners are closed on exec", one_server, NULL, 0, NULL, closed_on_exec},
	{"PMIx: the limit of open files is raised", raised_files, NULL, 0, NULL, too_many},
	{"PMIx: pmix=off", one_server, NULL, 0, NULL, same_environment, .argument = (char[]){"pmix=off"}},
	{"PMIx: no lease", one_server, NULL, 0, NULL, same_environment, .before = no_lease},
	{"PMIx: a job in the node's network", in_nodes_network, NULL, 0, NULL, same_environment},
	{"PMIx: two servers", two_servers, "are both open", -1},
	{"PMIx: too few open files allowed", few_files, "hint: raise LimitNOFILE of slurmd", -1},
	{"PMIx: a callback in another process", one_server, "contain_spank", -1, .elsewhere = true},
	{"PMIx: no server on the loopback", server_elsewhere, NULL, -1, "does not listen on 127.0.0.1"},
	{"PMIx: another job's name, not an MPI step", no_server, NULL, 0, NULL, no_name, .user = others_name, .alone = true},
	{"PMIx: many others' servers", one_server, NULL, 0, NULL, others_forgotten, .user = many_uris},
	{"PMIx: others' servers, pmix=off", one_server, NULL, 0, NULL, others_kept, .user = many_uris,
	 .argument = (char[]){"pmix=off"}},
	{"PMIx: others' servers, no lease", one_server, NULL, 0, NULL, others_kept, .before = no_lease, .user = many_uris},
	{"PMIx: no server", no_server, NULL, -1, "does not listen on 127.0.0.1"},
	{"where srun is, in the job", own_address, NULL, 0, NULL, launcher_named, .user = launcher_here, .alone = true},
	{"X11: a display of Slurm's", one_display, NULL, 0, NULL, shows_windows, .alone = true},
	{"X11: with pmix=off", one_display, NULL, 0, NULL, shows_windows, .argument = (char[]){"pmix=off"}, .alone = true},
	{"X11: another step has it, too", two_steps, NULL, 0, NULL, shows_windows, .alone = true},
	{"X11: a user's own display", ssh_display, NULL, 0, NULL, shows_none, .alone = true},
	{"X11: a display after Slurm's", display_beyond, NULL, 0, NULL, shows_none, .alone = true},
	{"X11: a display of a long number", long_display, NULL, 0, NULL, shows_none, .alone = true},
	{"X11: somebody listens there", taken_display, "listen for X11", 0, NULL, shows_none, .alone = true},
	{"X11: a callback in another process", one_display, NULL, 0, NULL, shows_none, .alone = true, .elsewhere = true},
	{"PMIx: a server that nothing names", unnamed_server, NULL, -1, "no PMIX_SERVER_URI names"},
};

static void run_task(const struct row *row, int barrier)
{
	char *argv[] = {row->argument, NULL};
	char byte;

	if (row->user)
		row->user();
	check(slurm_spank_task_init_privileged(NULL, 0, argv) == 0, "the task does not enter");
	must(read(barrier, &byte, 1) == 1, "barrier");
	if (row->stepd == unnamed_server)
		server_port = 1; /* what the environment names is something else */
	if (!row->alone)
		set_uris();
	check(start_program(argv) == row->want_task, "the task goes on, or ends, and should not");
	check_said(row->task_says);
	if (row->task)
		row->task();
}

static void post_fork(const struct row *row)
{
	for (int task = 0; task < TASKS; task++)
		check(slurm_spank_task_post_fork(NULL, 0, NULL) == 0, "post_fork fails");
	check_said(row->says);
}

/* post_fork_elsewhere has a process do it that shares memory only as far as
 * the page that tasks share. */
static void post_fork_elsewhere(const struct row *row)
{
	int status;
	pid_t child = fork();

	must(child != -1, "fork");
	if (child == 0) {
		post_fork(row);
		_exit(0);
	}
	must(waitpid(child, &status, 0) == child && status == 0, "wait");
}

static void run_stepd(const void *argument)
{
	const struct row *row = argument;
	char *argv[] = {row->argument, NULL};
	int barrier[2];
	int status;
	pid_t task;

	slurm = (struct slurm){.context = S_CTX_REMOTE, .job = 4711, .restarts = 2, .uid = 1000, .tasks = TASKS};
	if (row->before)
		row->before();
	check(slurm_spank_init(NULL, row->argument ? 1 : 0, argv) == 0, "init fails");
	row->stepd();
	must(!pipe2(barrier, O_CLOEXEC), "pipe");
	fds_before = count_entries("/proc/self/fd");
	task = fork();
	must(task != -1, "fork");
	if (task == 0) {
		close(barrier[1]);
		run_task(row, barrier[0]);
		exit(0);
	}
	(row->elsewhere ? post_fork_elsewhere : post_fork)(row);
	if (row->gone)
		must(!shutdown(listener, SHUT_RD), "shut the listener down");
	must(write(barrier[1], "", 1) == 1, "barrier");
	close(barrier[1]);
	barrier[1] = open("/dev/null", O_RDONLY | O_CLOEXEC); /* as many as before */
	must(waitpid(task, &status, 0) == task, "wait");
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the task dies");
	check(slurm_spank_exit(NULL, 0, argv) == 0, "exit fails");
	check(alone(), "a thread is left");
	check(count_entries("/proc/self/fd") == fds_before, "a descriptor is left");
	if (server)
		kill(server, SIGKILL);
}

int relay_tests(int *all)
{
	int passed = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++, (*all)++) {
		lease_make();
		in_child(run_stepd, &rows[i]);
		lease_drop();
		passed += report(rows[i].name);
	}
	return passed;
}
