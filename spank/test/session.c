/* The PAM module: which job a session is taken for, and what comes of it, in a cgroup tree of
 * ordinary directories. That a session then is inside as a task is, the VM's tests show. */
#include <pthread.h>
#include <sched.h>
#include <security/pam_modules.h>
#include <slurm/slurm.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "case.h"
#include "pam.h"
#include "sandbox.h"
#include "slurm.h"

#define TREE "/sys/fs/cgroup"
#define SCOPE "/slurm"
#define JOB SCOPE "/job_4711"
#define V2 "0::" JOB "/step_extern/user/task_special\n"
#define V1                                                                                       \
	"12:pids:/\n9:freezer:" JOB "/step_extern\n4:memory:" JOB "/step_extern/task_special\n"     \
	"1:name=systemd:/user.slice/job_7/step_extern\n0::/system.slice/ssh.service\n"

/* Where the session's process is in the end. */
enum where { OUTSIDE, INSIDE, HALF_INSIDE, IN_NODES };

struct row {
	const char *name;
	int want;
	enum where where;
	const char *says;   /* NULL: nothing */
	const char *cgroup; /* /proc/self/cgroup has, NULL: V2 */
	const char *env;    /* the lease's, NULL: a good one */
	const char *said;   /* what SLURM_JOB_ID says, NULL: it is not set */
	const char *user;   /* NULL: alice */
	const char *argument;
	void (*spoil)(void); /* done to the node before */
	void (*before)(void); /* done in the session's process before */
	void (*then)(void);   /* looked at after */
};

static void no_env(void) { must(!unlink(LEASE "/env"), "env"); }
static void no_lease(void)
{
	must(!umount(LEASE "/dev") && !umount(LEASE "/netns"), "unmount");
	must(!unlink(LEASE "/env") && !unlink(LEASE "/netns") && !rmdir(LEASE "/dev") && !rmdir(LEASE), "remove");
}
static void runs(void) { no_lease(); must(!mkdir(STATE "/runs", 0700), "runs"); }
static void record(const char *text) { runs(); must(!symlink(text, STATE "/runs/4711"), "record"); }
static void fine(void) { record("exit=0 lease=no job=4711 run=2 by=slurmd"); }
static void lost(void) { record("exit=0 lease=yes job=4711 run=2 by=slurmd"); }
static void swallowed(void) { record("exit=1 lease=no job=4711 run=2 by=slurmd:/etc/slurm/prolog.sh why=no space"); }
static void world_runs(void) { fine(); must(!chmod(STATE "/runs", 0777), "runs"); }
static void no_netns(void) { must(!umount(LEASE "/netns") && !unlink(LEASE "/netns"), "netns"); }
static void bare_devices(void) { must(!umount(LEASE "/dev"), "dev"); }
static void move_state(void) { must(!rename(STATE, "/run/elsewhere"), STATE); }

static void users_cgroup(void) { must(!chown(TREE JOB, 1000, 1000), JOB); }
static void open_cgroup(void) { must(!chmod(TREE JOB, 0777), JOB); }
static void no_cgroup(void) { must(!rmdir(TREE JOB), JOB); }
static void linked_cgroup(void)
{
	no_cgroup();
	must(!mkdir(TREE SCOPE "/job_8", 0755) && !symlink("job_8", TREE JOB), JOB);
}
static void no_read(void) { must(!mount("/proc/self/mem", "/proc/self/cgroup", NULL, MS_BIND, NULL), "mem"); }
static void user_namespace(void) { must(!unshare(CLONE_NEWUSER), "make a user namespace"); }
static void full(void) { pam.full = true; }
static void nobody(void) { pam.user = NULL; }

static void *idle(void *argument)
{
	(void)argument;
	for (;;)
		pause();
	return NULL;
}
static void second_thread(void)
{
	pthread_t thread;

	must(!pthread_create(&thread, NULL, idle, NULL) && !pthread_detach(thread), "thread");
}

static void check_set(const char *name, const char *want)
{
	const char *have = pam_getenv(SESSION, name);

	if (!have != !want || (want && strcmp(have, want)))
		fail("%s is %s, not %s", name, have ? have : "unset", want ? want : "unset");
}
static void exported(void)
{
	check_set("GRESNET_JOB", "4711");
	check_set("GRESNET_HCAS", "mlx5_1");
	check_set("NCCL_IB_HCA", "=mlx5_1:1");
	check_set("MELLANOX_VISIBLE_DEVICES", "none");
	check_set("GRESNET_VARIABLES", "NCCL_IB_HCA,MELLANOX_VISIBLE_DEVICES");
	check_set("GRESNET_GAVE_NCCL_IB_HCA", "=mlx5_1:1");
	check_set("GRESNET_UID", NULL);
	check_set("GRESNET_NETNS", NULL);
}
static void others_set(void)
{
	must(!pam_putenv(SESSION, "NCCL_IB_HCA=mine") && !pam_putenv(SESSION, "MELLANOX_VISIBLE_DEVICES=all"), "set");
}
static void others_stay(void)
{
	check_set("NCCL_IB_HCA", "mine");
	check_set("GRESNET_GAVE_NCCL_IB_HCA", NULL);
	check_set("MELLANOX_VISIBLE_DEVICES", "none");
}

static const struct row rows[] = {
	{"session: a lease", PAM_SUCCESS, INSIDE, NULL,
	 .env = HEAD NETNS "GRESNET_HCAS=mlx5_1\nNCCL_IB_HCA==mlx5_1:1\nMELLANOX_VISIBLE_DEVICES=none\n", .then = exported},
	{"session: what another module has set", PAM_SUCCESS, INSIDE, NULL,
	 .env = HEAD NETNS "NCCL_IB_HCA==mlx5_1:1\nMELLANOX_VISIBLE_DEVICES=none\n", .before = others_set, .then = others_stay},
	{"session: SLURM_JOB_ID says the same", PAM_SUCCESS, INSIDE, NULL, .said = "4711"},
	{"session: leases elsewhere", PAM_SUCCESS, INSIDE, NULL, .spoil = move_state, .argument = "state=/run/elsewhere"},
	{"session: cgroup v1", PAM_SUCCESS, INSIDE, NULL, V1, .said = "4711"},
	{"session: Slurm in a step of another", PAM_SUCCESS, INSIDE, NULL, "0::/slurm/job_7/step_extern/x" JOB "/step_extern\n"},

	{"session: a job in the node's network", PAM_SUCCESS, IN_NODES, NULL, .env = HEAD "GRESNET_NETNS=node\nGRESNET_HCAS=mlx5_1\n",
	 .spoil = no_netns},

	{"session: no job", PAM_IGNORE, OUTSIDE, NULL, "0::/system.slice/ssh.service\n"},
	{"session: no cgroup", PAM_IGNORE, OUTSIDE, NULL, ""},
	{"session: sshd in a job's step", PAM_IGNORE, OUTSIDE, NULL, "0::" JOB "/step_0/user/task_0\n"},
	{"session: a name that begins like the extern step's", PAM_IGNORE, OUTSIDE, NULL, "0::" JOB "/step_external\n"},
	{"session: no job, a bad argument", PAM_IGNORE, OUTSIDE, NULL, "0::/\n", .argument = "stat=/run"},
	{"session: a job without a lease", PAM_IGNORE, OUTSIDE, NULL, .said = "4711", .spoil = no_lease},

	{"session: a job that needs no lease", PAM_IGNORE, OUTSIDE, NULL, .spoil = fine},
	{"session: a job whose lease is gone", PAM_SESSION_ERR, OUTSIDE, "the lease that gresnet-prolog took is gone", .spoil = lost},
	{"session: a job whose prolog failed unseen", PAM_SESSION_ERR, OUTSIDE, "gresnet-prolog failed, and /etc/slurm/prolog.sh went on: no space",
	 .spoil = swallowed},
	{"session: records that all can write", PAM_SESSION_ERR, OUTSIDE, "runs can be written by others than root", .spoil = world_runs},

	{"session: SLURM_JOB_ID says another", PAM_SESSION_ERR, OUTSIDE, "in a cgroup of job 4711, and SLURM_JOB_ID says job 4712",
	 .said = "4712"},
	{"session: SLURM_JOB_ID is no number", PAM_SESSION_ERR, OUTSIDE, "SLURM_JOB_ID says job 04711", .said = "04711"},
	{"session: SLURM_JOB_ID is empty", PAM_SESSION_ERR, OUTSIDE, "and SLURM_JOB_ID says job ", .said = ""},
	{"session: SLURM_JOB_ID and no cgroup of a job", PAM_SESSION_ERR, OUTSIDE,
	 "SLURM_JOB_ID says job 4711, and this session is in no cgroup of a job; hint: pam_systemd", "0::/user.slice\n", .said = "4711"},
	{"session: another job's cgroup, too", PAM_SESSION_ERR, OUTSIDE, "in cgroups of job 4711 and of job 4712",
	 "9:freezer:" JOB "/step_extern\n4:memory:" SCOPE "/job_4712/step_extern\n"},
	{"session: a job's SLUID", PAM_SESSION_ERR, OUTSIDE, "hint: set CgroupJobIdPaths=yes", "0::" SCOPE "/s6QX3Y0R0000/step_extern\n"},
	{"session: a job with more than a number", PAM_SESSION_ERR, OUTSIDE, "does not name its job", "0::" JOB "x/step_extern\n"},
	{"session: a job without a number", PAM_SESSION_ERR, OUTSIDE, "does not name its job", "0::" SCOPE "/job_/step_extern\n"},
	{"session: job 0", PAM_SESSION_ERR, OUTSIDE, "does not name its job", "0::" SCOPE "/job_0/step_extern\n"},
	{"session: a number too large by 2^32", PAM_SESSION_ERR, OUTSIDE, "does not name its job",
	 "0::" SCOPE "/job_4294972007/step_extern\n"},
	{"session: a negative number", PAM_SESSION_ERR, OUTSIDE, "does not name its job", "0::" SCOPE "/job_-1/step_extern\n"},
	{"session: a line of another form", PAM_SESSION_ERR, OUTSIDE, "unknown form", "0" JOB "/step_extern\n"},
	{"session: a line without its end", PAM_SESSION_ERR, OUTSIDE, "unknown form", "0::" JOB "/step_extern"},
	{"session: a cgroup of the user's", PAM_SESSION_ERR, OUTSIDE, JOB " can be written by others than root", .before = users_cgroup},
	{"session: a cgroup that all can write", PAM_SESSION_ERR, OUTSIDE, "can be written by others than root", .before = open_cgroup},
	{"session: a cgroup that is gone", PAM_SESSION_ERR, OUTSIDE, "open " TREE JOB ": No such file", .before = no_cgroup},
	{"session: a cgroup that is a link", PAM_SESSION_ERR, OUTSIDE, "open " TREE JOB ": Not a directory", .before = linked_cgroup},
	{"session: a cgroup that cannot be read", PAM_SESSION_ERR, OUTSIDE, "read /proc/self/cgroup: Input/output", .before = no_read},

	{"session: another user's job", PAM_SESSION_ERR, OUTSIDE, "the lease is not this job's: GRESNET_UID is 1000, not 1001", .user = "bob"},
	{"session: an unknown user", PAM_SESSION_ERR, OUTSIDE, "find user carol: there is none", .user = "carol"},
	{"session: no user", PAM_SESSION_ERR, OUTSIDE, "ask PAM for the session's user: some error", .before = nobody},
	{"session: an unknown argument", PAM_SESSION_ERR, OUTSIDE, "unknown argument stat=/run; hint: there is state=DIR", .argument = "stat=/run"},
	{"session: a relative argument", PAM_SESSION_ERR, OUTSIDE, "unknown argument state=run", .argument = "state=run"},
	{"session: refused", PAM_SESSION_ERR, OUTSIDE, "job 4711: refused: why", .env = HEAD "GRESNET_REFUSED=why\n"},
	{"session: not complete", PAM_SESSION_ERR, OUTSIDE, "the lease is not complete", .spoil = no_env},
	{"session: a lease of another version", PAM_SESSION_ERR, OUTSIDE, "foreign version", .env = "GRESNET_LEASE=2\n"},
	{"session: in a user namespace", PAM_SESSION_ERR, OUTSIDE, "can be written by others than root (uid 65534", .before = user_namespace},
	{"session: several threads", PAM_SESSION_ERR, OUTSIDE, "has several threads", .before = second_thread},
	{"session: no devices", PAM_SESSION_ERR, HALF_INSIDE, "nothing is mounted at dev", .spoil = bare_devices},
	{"session: a variable is not taken", PAM_SESSION_ERR, HALF_INSIDE, "set GRESNET_JOB: PAM does not take it", .before = full},
};

/* make_tree gives both kinds of hierarchy the job's cgroup. */
static void make_tree(const char *cgroup)
{
	static const char *const jobs[] = {TREE JOB, TREE "/freezer" JOB, TREE "/memory" JOB, TREE "/memory" SCOPE "/job_4712",
					   TREE "/slurm/job_7/step_extern/x" JOB};

	must(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL), "unshare");
	must(!mount("sandbox", TREE, "tmpfs", 0, "mode=0755"), TREE);
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		char path[256];

		snprintf(path, sizeof(path), "%s", jobs[i]);
		for (char *slash = path + strlen(TREE) + 1; (slash = strchr(slash, '/')); slash++) {
			*slash = '\0';
			must(!mkdir(path, 0755) || !access(path, F_OK), path);
			*slash = '/';
		}
		must(!mkdir(path, 0755), path);
	}
	write_bytes("/run/cgroup", cgroup, strlen(cgroup));
	must(!mount("/run/cgroup", "/proc/self/cgroup", NULL, MS_BIND, NULL), "/proc/self/cgroup");
}

static void check_where(enum where where, const struct stat *net)
{
	bool job_has_network = where == INSIDE || where == HALF_INSIDE;
	struct stat now;

	must(!stat("/proc/self/ns/net", &now), "stat a network namespace");
	check(job_has_network || now.st_ino == net->st_ino, "not in the node's network namespace");
	check(!job_has_network || job_netns(), "not in the job's network namespace");
	if (where == HALF_INSIDE)
		return;
	check((where == OUTSIDE) == (access("/dev/infiniband/uverbs0", F_OK) == 0), "/dev/infiniband is another's");
	check((where == INSIDE) == (access("/sys/class/net/job0", F_OK) == 0), "/sys is another's");
}

static void run_session(const void *argument)
{
	const struct row *row = argument;
	const char *argv[] = {row->argument, NULL};
	char variable[64];
	struct stat net;
	int files, rc;

	slurm = (struct slurm){0};
	pam = (struct pam){.user = row->user ? row->user : "alice"};
	snprintf(variable, sizeof(variable), "SLURM_JOB_ID=%s", row->said ? row->said : "");
	must(!row->said || !pam_putenv(SESSION, variable), "SLURM_JOB_ID");
	make_tree(row->cgroup ? row->cgroup : V2);
	if (row->before)
		row->before();
	must(!stat("/proc/self/ns/net", &net), "stat a network namespace");
	files = count_entries("/proc/self/fd");
	rc = pam_sm_open_session(SESSION, 0, row->argument ? 1 : 0, argv);
	if (rc != row->want)
		fail("returned %d, not %d", rc, row->want);
	check_said(row->says);
	check_where(row->where, &net);
	check(count_entries("/proc/self/fd") == files, "a descriptor leaks");
	if (row->then)
		row->then();
	check(pam_sm_close_session(SESSION, 0, 0, NULL) == PAM_SUCCESS, "the session does not close");
}

int session_tests(int *all)
{
	int passed = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++, (*all)++) {
		lease_make();
		if (rows[i].env)
			write_env(rows[i].env);
		if (rows[i].spoil)
			rows[i].spoil();
		in_child(run_session, &rows[i]);
		lease_drop();
		passed += report(rows[i].name);
	}
	return passed;
}

/* session_run opens a good one, for inject.c. */
int session_run(void)
{
	return pam_sm_open_session(SESSION, 0, 0, NULL);
}

void session_prepare(void)
{
	slurm = (struct slurm){0};
	pam = (struct pam){.user = "alice"};
	make_tree(V2);
}
