/* Limits: what the extern step writes for the rdma controller, in a cgroup tree
 * of ordinary files. */
#include <fcntl.h>
#include <sched.h>
#include <slurm/slurm.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "case.h"
#include "sandbox.h"
#include "slurm.h"

#define TREE "/sys/fs/cgroup"
#define JOB "/slurm/job_4711"
#define MAX TREE JOB "/rdma.max"
#define TWO "mlx5_0 hca_handle=8 hca_object=1000\nmlx5_1 hca_handle=8 hca_object=1000\n"

struct row {
	const char *name;
	const char *limits; /* the lease's, NULL: none */
	const char *want;   /* written to rdma.max */
	const char *says;   /* NULL: nothing */
	const char *cgroup; /* in /proc/self/cgroup, NULL: as it is with cgroup v2 */
	void (*spoil)(void);
	bool other; /* another step than the extern one */
};

static void no_controller(void) { must(!unlink(MAX), MAX); }
/* The node of /dev/full, which says ENOSPC. */
static void full_controller(void) { no_controller(); must(!mknod(MAX, S_IFCHR | 0600, makedev(1, 7)), MAX); }
static void link_controller(void) { no_controller(); must(!symlink("/dev/null", MAX), MAX); }
static void read_only_controller(void)
{
	must(!mount(NULL, TREE, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), TREE);
}
static void chown_limits(void) { must(!chown(LEASE "/limits", 1000, 0), "limits"); }
static void link_limits(void)
{
	must(!rename(LEASE "/limits", LEASE "/real") && !symlink("real", LEASE "/limits"), "limits");
}
static void fifo_limits(void) { must(!unlink(LEASE "/limits") && !mkfifo(LEASE "/limits", 0600), "limits"); }
static void big_limits(void) { must(!truncate(LEASE "/limits", 16385), "limits"); }
static void other_run(void) { slurm.restarts = 22; }
static void marked(void) { write_bytes(LEASE "/extern", "", 0); }
static void no_env(void) { must(!unlink(LEASE "/env"), "env"); }
static void no_proc(void) { must(!mount("sandbox", "/proc", "tmpfs", 0, NULL), "/proc"); }

static const struct row rows[] = {
	{"a lease without limits", NULL, "", NULL},
	{"limits of two HCAs", TWO, "mlx5_0 hca_handle=8 hca_object=1000mlx5_1 hca_handle=8 hca_object=1000", NULL},
	{"one limit alone", "mlx5_0 hca_handle=8\n", "mlx5_0 hca_handle=8", NULL},
	{"a step after the extern one", TWO, "", NULL, "0::" JOB "/step_0/user\n", .spoil = marked, .other = true},
	{"a step whose prolog came after the extern one", TWO, "mlx5_0 hca_handle=8 hca_object=1000mlx5_1 hca_handle=8 hca_object=1000",
	 NULL, "0::" JOB "/step_0/user\n", .other = true},
	{"SLUID", "mlx5_0 hca_object=7\n", "mlx5_0 hca_object=7", NULL, "0::" JOB "/step_extern/slurm\n"},
	{"a node with cgroup v1, too", "mlx5_0 hca_object=7\n", "mlx5_0 hca_object=7", NULL,
	 "4:memory:/slurm/uid_0/job_1/step_extern\n0::" JOB "/step_extern\n"},
	{"a step in a step", "mlx5_0 hca_object=7\n", "mlx5_0 hca_object=7", NULL,
	 "0::" JOB "/step_extern/slurm/step_external\n"},

	{"controller not enabled", TWO, NULL, "warning: the limits of gresnet.toml do not hold: there is no " MAX "; hint: enable",
	 .spoil = no_controller},
	{"controller says no", "mlx5_0 hca_handle=8\n", NULL, "set limits \"mlx5_0 hca_handle=8\": No space", .spoil = full_controller},
	{"controller cannot be written", TWO, "", "rdma.max: Read-only file system", .spoil = read_only_controller},
	{"controller a symbolic link", TWO, NULL, "rdma.max: Too many levels", .spoil = link_controller},
	{"not in an extern step", TWO, "", "which is not a step's of the job", "0::" JOB "/step_0/user\n"},
	{"a name that begins like one", TWO, "", "which is not a step's of the job", "0::" JOB "/step_external/slurm\n"},
	{"no job above the step", TWO, "", "which is not a step's of the job", "0::/step_extern/slurm\n"},
	{"cgroup v1 alone", TWO, "", "slurmstepd is in cgroup \"\"", "9:rdma:/\n4:memory:/slurm/step_extern\n"},
	{"no /proc", TWO, "", "/proc/self/uid_map: No such file", .spoil = no_proc},

	{"limits not root's", TWO, "", "limits can be written by others than root", .spoil = chown_limits},
	{"limits a symbolic link", TWO, "", "open limits: Too many levels", .spoil = link_limits},
	{"limits a fifo", TWO, "", "limits is not a regular file", .spoil = fifo_limits},
	{"limits of 16 KB", TWO, "", "more than 16384", .spoil = big_limits},
	{"limits empty", "", "", "no content"},
	{"limits cut off", "mlx5_0 hca_handle=8", "", "limits is cut off"},
	{"another run's limits", TWO, "", "lease of another run", .spoil = other_run},
	{"limits of a broken lease", TWO, "", "not complete", .spoil = no_env},
	{"a line without a limit", "mlx5_0\n", "", "limits: \"mlx5_0\" is not"},
	{"a line with something else", "mlx5_0 hca_qps=8\n", "", "is not HCA hca_handle"},
	{"a line without a number", "mlx5_0 hca_handle=\n", "", "is not HCA hca_handle"},
	{"a line with a word for a number", "mlx5_0 hca_handle=max\n", "", "is not HCA hca_handle"},
	{"a line with too much", "mlx5_0 hca_handle=8 hca_object=7 mlx5_1\n", "", "is not HCA hca_handle"},
	{"a line that is wrong keeps no other out", "x\nmlx5_1 hca_handle=8\n", "mlx5_1 hca_handle=8", "limits: \"x\" is not"},
};

static void make_tree(const struct row *row)
{
	const char *cgroup = row->cgroup ? row->cgroup : "0::" JOB "/step_extern/slurm\n";

	must(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL), "unshare");
	must(!mount("sandbox", TREE, "tmpfs", 0, "mode=0755"), TREE);
	must(!mkdir(TREE "/slurm", 0755) && !mkdir(TREE JOB, 0755), TREE JOB);
	write_bytes(MAX, "", 0);
	write_bytes("/run/cgroup", cgroup, strlen(cgroup));
	must(!mount("/run/cgroup", "/proc/self/cgroup", NULL, MS_BIND, NULL), "/proc/self/cgroup");
}

static void check_written(const char *want)
{
	char have[512] = "";
	int fd = open(MAX, O_RDONLY | O_CLOEXEC);

	must(fd != -1 && read(fd, have, sizeof(have) - 1) != -1, MAX);
	close(fd);
	if (strcmp(have, want))
		fail("rdma.max has \"%s\", not \"%s\"", have, want);
}

static void run_extern(const void *argument)
{
	const struct row *row = argument;
	char *argv[] = {NULL};

	make_tree(row);
	slurm = (struct slurm){
		.context = S_CTX_REMOTE, .job = 4711, .step = row->other ? 0 : SLURM_EXTERN_CONT, .restarts = 2, .uid = 1000,
	};
	if (row->limits)
		write_bytes(LEASE "/limits", row->limits, strlen(row->limits));
	if (row->spoil)
		row->spoil();
	/* The step goes on, whatever comes of it. */
	check(slurm_spank_init(NULL, 0, argv) == 0, "init fails");
	check_said(row->says);
	if (row->spoil == no_proc)
		must(!umount("/proc"), "/proc"); /* the sanitizer looks there at the end */
	if (row->want)
		check_written(row->want);
}

int limit_tests(int *all)
{
	int passed = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++, (*all)++) {
		lease_make();
		in_child(run_extern, &rows[i]);
		lease_drop();
		passed += report(rows[i].name);
	}
	return passed;
}
