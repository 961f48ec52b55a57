/* The plugin's test: real namespaces and mounts on this machine's kernel, and
 * slurm.c in the place of slurmstepd. Each case is a process of its own; after
 * each of them the node must be as it was, failed or not. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <slurm/slurm.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "case.h"
#include "sandbox.h"
#include "slurm.h"

/* Why the case that runs has failed: its process writes, the harness reads. */
static char *wrong;

enum { WRONG_SIZE = 4096 };

void fail(const char *format, ...)
{
	va_list args;
	size_t have = strlen(wrong);

	va_start(args, format);
	vsnprintf(wrong + have, WRONG_SIZE - have, format, args);
	va_end(args);
	have = strlen(wrong);
	snprintf(wrong + have, WRONG_SIZE - have, "; ");
}

void check(bool ok, const char *what)
{
	if (!ok)
		fail("%s", what);
}

/* A picture of what a task can see and must find again. */
struct view {
	struct stat net, mnt, cgroup;
	struct statvfs sys, firmware, efi;
	char cwd[4096];
	int fds;
};

/* Where a process goes on that would end in slurm_spank_task_init. */
static jmp_buf ended;
static bool may_end;

void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status)
{
	if (may_end && status == EXIT_FAILURE)
		longjmp(ended, 1);
	__real__exit(status);
}

int start_program(char *argv[])
{
	may_end = true;
	if (setjmp(ended)) {
		may_end = false;
		return -1;
	}
	check(slurm_spank_task_init(NULL, 0, argv) == 0, "the last callback fails");
	may_end = false;
	return 0;
}

int count_entries(const char *path)
{
	struct dirent *entry;
	int n = 0;
	DIR *dir = opendir(path);

	must(dir != NULL, path);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

bool alone(void)
{
	const struct timespec tick = {.tv_nsec = 1000 * 1000};
	int tries;

	for (tries = 0; tries < HANGS * 1000 / 4; tries++) {
		if (count_entries("/proc/self/task") == 1)
			return true;
		nanosleep(&tick, NULL);
	}
	return false;
}

static void look(struct view *v)
{
	must(!stat("/proc/self/ns/net", &v->net) && !stat("/proc/self/ns/mnt", &v->mnt), "stat namespaces");
	must(!stat("/sys/fs/cgroup", &v->cgroup), "/sys/fs/cgroup");
	must(!statvfs("/sys", &v->sys) && !statvfs("/sys/firmware", &v->firmware) &&
	     !statvfs("/sys/firmware/efi", &v->efi), "stat /sys");
	must(getcwd(v->cwd, sizeof(v->cwd)) != NULL, "cwd");
	v->fds = count_entries("/proc/self/fd");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int no_dots(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void check_names(const char *dir, const char *want)
{
	char have[1024] = "";
	struct dirent **entries;
	int n = scandir(dir, &entries, no_dots, by_name);

	must(n >= 0, dir);
	for (int i = 0; i < n; i++) {
		strncat(have, entries[i]->d_name, sizeof(have) - strlen(have) - 2);
		strcat(have, " ");
		free(entries[i]);
	}
	free(entries);
	if (strcmp(have, want))
		fail("%s has %sand not %s", dir, have, want);
}

static void check_devices(void)
{
	struct statvfs dev;
	int fd = open("/dev/infiniband/uverbs1", O_RDWR | O_CLOEXEC);

	check_names("/dev/infiniband", "rdma_cm uverbs1 ");
	check(fd != -1, "the job's uverbs1 does not open");
	if (fd != -1)
		close(fd);
	must(!statvfs("/dev/infiniband", &dev), "/dev/infiniband");
	check((dev.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC)) == (ST_NOSUID | ST_NOEXEC),
	      "/dev/infiniband is not nosuid,noexec");
}

/* check_interfaces holds /sys against the kernel's own list. */
static void check_interfaces(void)
{
	struct if_nameindex *all = if_nameindex();
	char path[64];
	int n = 0;

	must(all != NULL, "list interfaces");
	for (; all[n].if_index; n++) {
		snprintf(path, sizeof(path), "/sys/class/net/%s", all[n].if_name);
		if (access(path, F_OK) == -1)
			fail("%s is not there", path);
	}
	if_freenameindex(all);
	check(count_entries("/sys/class/net") == n, "/sys/class/net has more interfaces than the namespace");
	check(!access("/sys/class/net/job0", F_OK), "job0 is not there");
	check(access("/sys/class/net/host0", F_OK) == -1, "host0 is there");
}

static void check_text(const char *path, const char *want)
{
	char have[64] = "";
	FILE *file = fopen(path, "re");

	must(file != NULL, path);
	check(fread(have, 1, sizeof(have) - 1, file) == strlen(want) && !strcmp(have, want), path);
	fclose(file);
}

/* What of RDMA the task is to find in /sys/class. */
static enum { LISTED_JOBS, LISTED_NONE, NO_CLASSES } listed;

/* check_classes: the job has mlx5_1, by its uverbs1. */
static void check_classes(void)
{
	char to[64] = "";

	if (listed == NO_CLASSES) {
		check(access("/sys/class/infiniband", F_OK) == -1, "/sys/class/infiniband was made");
		return;
	}
	if (listed == LISTED_NONE) {
		check_names("/sys/class/infiniband", "");
		return;
	}
	check_names("/sys/class/infiniband", "mlx5_1 ");
	check_names("/sys/class/infiniband_verbs", "abi_version uverbs1 ");
	check_names("/sys/class/infiniband_mad", "abi_version issm1 umad1 ");
	check_names("/sys/class/infiniband_cm", "mlx5_1 ");
	check_text("/sys/class/infiniband_verbs/abi_version", "6\n");
	check_text("/sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_1\n");
	check(readlink("/sys/class/infiniband/mlx5_1", to, sizeof(to) - 1) != -1 && !strcmp(to, "../devices/mlx5_1"),
	      "the link to mlx5_1 is not the kernel's");
	check(mkdir("/sys/class/infiniband/new", 0700) == -1 && errno == EROFS, "/sys/class/infiniband can be written");
}

static void check_inside(const struct view *before)
{
	struct view now;

	look(&now);
	check(job_netns(), "not in the job's network namespace");
	check(now.mnt.st_ino != before->mnt.st_ino, "no mount namespace of its own");
	check_interfaces();
	check(now.cgroup.st_dev == before->cgroup.st_dev && now.cgroup.st_ino == before->cgroup.st_ino,
	      "/sys/fs/cgroup is another");
	check(now.sys.f_flag == before->sys.f_flag, "/sys has other flags");
	check(now.firmware.f_flag == before->firmware.f_flag, "/sys/firmware has other flags");
	check(now.efi.f_flag == before->efi.f_flag, "/sys/firmware/efi has other flags");
	check(!strcmp(now.cwd, before->cwd), "another working directory");
	check(now.fds == before->fds, "a descriptor leaks");
	check_devices();
	check_classes();
}

/* How many of the variables that the task had before it is to keep. */
static size_t kept;

static void check_outside(const struct view *before)
{
	struct view now;

	look(&now);
	check(now.net.st_ino == before->net.st_ino, "not in the node's network namespace");
	check(now.mnt.st_ino == before->mnt.st_ino, "another mount namespace");
	check(now.fds == before->fds, "a descriptor leaks");
	check(slurm.envs == kept, "the environment has changed");
}

/* check_no_devices: nothing of RDMA to open. */
static void check_no_devices(void)
{
	if (!access("/dev/infiniband", F_OK))
		check_names("/dev/infiniband", "");
	check(open("/dev/infiniband/new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) == -1, "/dev/infiniband can be written");
}

/* check_shut_in: a task that is refused has nothing until it ends. */
static void check_shut_in(const struct view *before)
{
	char *argv[] = {NULL};
	struct view now;

	look(&now);
	check(now.net.st_ino != before->net.st_ino && !job_netns(), "in the network of the node or of the job");
	check(!if_nametoindex("host0") && !if_nametoindex("job0"), "an interface of the node or of the job");
	check(now.mnt.st_ino != before->mnt.st_ino, "no mount namespace of its own");
	check(now.fds == before->fds, "a descriptor leaks");
	check(slurm.envs == kept, "the environment has changed");
	check_no_devices();
	check(start_program(argv) == -1, "the program starts");
}

/* In the node's network, and nothing of RDMA to open. */
static void check_without(const struct view *before)
{
	struct view now;

	look(&now);
	check(now.net.st_ino == before->net.st_ino, "not in the node's network namespace");
	check(now.mnt.st_ino != before->mnt.st_ino, "no mount namespace of its own");
	check(now.fds == before->fds, "a descriptor leaks");
	check(slurm.envs == kept, "the environment has changed");
	check_no_devices();
}

/* In the node's network and its /sys, with device nodes of the job's own. */
static void check_in_nodes(const struct view *before)
{
	struct view now;

	look(&now);
	check(now.net.st_ino == before->net.st_ino, "not in the node's network namespace");
	check(now.mnt.st_ino != before->mnt.st_ino, "no mount namespace of its own");
	check(!access("/sys/class/net/host0", F_OK), "host0 is not there");
	check(now.fds == before->fds, "a descriptor leaks");
	check_devices();
	check_classes();
}

/* What a case wants to find afterwards. */
enum where { OUTSIDE, INSIDE, SHUT_IN, WITHOUT, IN_NODES };

#define NO_VALUE "(null)"

struct row {
	const char *name;
	enum where where;
	const char *says;      /* part of the error; NULL: no error */
	const char *env;       /* the lease's env, NULL: a good one */
	void (*spoil)(void);   /* done to the node before, NULL: nothing */
	void (*task)(void);    /* done in the task's process before */
	void (*meanwhile)(void); /* done in the task's process between the step's start and the task's */
	void (*then)(void);    /* checked in the task's process after */
	char *argument;        /* of the line in plugstack.conf */
	char *another;         /* of the same */
	const char *option;    /* of --gresnet, NULL: not used; NO_VALUE: sent without one */
};

/* Spoilers, each for one row. */
static void no_lease(void)
{
	must(!umount(LEASE "/dev") && !umount(LEASE "/netns"), "unmount");
	must(!unlink(LEASE "/env") && !unlink(LEASE "/netns") && !rmdir(LEASE "/dev") && !rmdir(LEASE), "remove");
}
static void no_state(void) { lease_drop(); must(!mount("sandbox", "/run", "tmpfs", 0, NULL), "/run"); }
static void no_env(void) { must(!unlink(LEASE "/env"), "env"); }
static void empty_env(void) { write_bytes(LEASE "/env", "", 0); }
static void nul_env(void) { write_bytes(LEASE "/env", HEAD "\0\n", sizeof(HEAD "\0\n") - 1); }
static void chown_env(void) { must(!chown(LEASE "/env", 1000, 0), "env"); }
static void group_env(void) { must(!chmod(LEASE "/env", 0620), "env"); }
static void world_env(void) { must(!chmod(LEASE "/env", 0602), "env"); }
static void fifo_env(void) { no_env(); must(!mkfifo(LEASE "/env", 0600), "env"); }
static void dir_env(void) { no_env(); must(!mkdir(LEASE "/env", 0700), "env"); }
static void link_env(void)
{
	must(!rename(LEASE "/env", LEASE "/real") && !symlink("real", LEASE "/env"), "env");
}
static void big_env(void)
{
	write_env(HEAD NETNS);
	must(!truncate(LEASE "/env", 1 << 20), "env");
}
/* long_env has a line whose name and value have these lengths. */
static void long_env(size_t name, size_t value)
{
	char text[8192] = HEAD NETNS;
	char *end = text + strlen(text);

	memset(end, 'X', name + 1 + value);
	memcpy(end, "GRESNET_", strlen("GRESNET_"));
	end[name] = '=';
	memcpy(end + name + 1 + value, "\n", sizeof("\n"));
	write_env(text);
}
static void longest_line(void) { long_env(64, 4096); }
static void long_name(void) { long_env(65, 1); }
static void long_value(void) { long_env(9, 4097); }

static void lines_env(int lines)
{
	char text[16384] = HEAD NETNS;

	for (int i = 5; i < lines; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "GRESNET_X%d=%d\n", i, i);
	write_env(text);
}
static void most_lines(void) { lines_env(256); }
static void many_lines(void) { lines_env(257); }
static void no_netns(void) { must(!umount(LEASE "/netns") && !unlink(LEASE "/netns"), "netns"); }
static void file_netns(void) { must(!umount(LEASE "/netns"), "netns"); }
static void uts_netns(void) { file_netns(); lease_bind("/proc/self/ns/uts"); }
static void own_netns(void)
{
	struct stat st;
	char text[512];

	file_netns();
	lease_bind("/proc/self/ns/net");
	must(!stat("/proc/self/ns/net", &st), "own netns");
	snprintf(text, sizeof(text), HEAD "GRESNET_NETNS=%ju:%ju\n", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	write_env(text);
}
static void link_netns(void) { no_netns(); must(!symlink("/proc/self/ns/net", LEASE "/netns"), "netns"); }
static void fifo_netns(void) { no_netns(); must(!mkfifo(LEASE "/netns", 0600), "netns"); }
static void link_jobs(void)
{
	must(!rename(STATE "/jobs", STATE "/real") && !symlink("real", STATE "/jobs"), "jobs");
}
static void link_lease(void)
{
	must(!rename(LEASE, STATE "/jobs/1") && !symlink("1", LEASE), "lease");
}
static void open_jobs(void) { must(!chmod(STATE "/jobs", 01777), "jobs"); }
static void chown_lease(void) { must(!chown(LEASE, 1000, 0), "lease"); }
static void no_devices(void) { must(!umount(LEASE "/dev") && !rmdir(LEASE "/dev"), "dev"); }
static void bare_devices(void) { must(!umount(LEASE "/dev"), "dev"); }
static void world_devices(void) { must(!chmod(LEASE "/dev", 0777), "dev"); }
static void notice(void)
{
	const char *text = "job 4711 has fewer HCAs: why\n";

	must(!mkdir(STATE "/notices", 0700), "notices");
	write_bytes(STATE "/notices/4711", text, strlen(text));
}
static void notice_alone(void) { notice(); no_lease(); }
static void world_notice(void) { notice(); must(!chmod(STATE "/notices/4711", 0606), "notice"); }
static void others_notice(void) { notice(); must(!rename(STATE "/notices/4711", STATE "/notices/4712"), "notice"); }

/* What a prolog left of its run for a job that has no lease. */
static void runs(void) { no_lease(); must(!mkdir(STATE "/runs", 0700), "runs"); }
static void record(const char *name, const char *text) { must(!symlink(text, name), name); }
static void only_records(void) { runs(); }
static void expect(const char *gres) { runs(); record(STATE "/runs/expected", gres); }
static void expect_nic(void) { expect("hca,nic"); }
static void expect_all(void) { expect("*"); }
static void expect_file(void) { runs(); write_bytes(STATE "/runs/expected", "", 0); }
static void set_up(const char *gres) { must(!mkdir("/run/gresnet-setup", 0700), "setup"); record("/run/gresnet-setup/expected", gres); }
static void set_up_and_no_state(void) { no_state(); set_up("hca"); }
static void set_up_and_folders(void) { only_records(); set_up("gpu,hca"); }
static void set_up_and_expected(void) { expect_nic(); set_up("*"); }
static void fine(void) { expect_all(); record(STATE "/runs/4711", "exit=0 lease=no job=4711 run=2 by=slurmd"); }
static void lost(void) { expect_all(); record(STATE "/runs/4711", "exit=0 lease=yes job=4711 run=2 by=slurmd"); }
static void swallowed(void)
{
	expect_all();
	record(STATE "/runs/4711", "exit=1 lease=no job=4711 run=2 by=slurmd:/etc/slurm/prolog.sh why=read \t gresnet.toml: line 3 [GN001]");
}
static void swallowed_full(void) { expect_all(); record(STATE "/runs/4711", "exit=2 lease=no job=4711 run=2 by=other:bash"); }
static void held_and_swallowed(void) { must(!mkdir(STATE "/runs", 0700), "runs"); record(STATE "/runs/4711", "exit=1 lease=no why=no"); }
/* A lease vanishes: it is the name that counts. What is mounted in it would keep its old one. */
static void unmounted(void) { must(!umount(LEASE "/dev") && !umount(LEASE "/netns"), "unmount"); }
static void vanish(void) { must(!rename(LEASE, STATE "/jobs/4712"), LEASE); }
static void vanish_with_records(void) { must(!rename(STATE, "/run/elsewhere"), STATE); }
static void vanish_trusted(void) { vanish(); must(!chmod(STATE "/jobs/4712", 0755), "4712"); }
static void marked(void) { unmounted(); write_bytes(LEASE "/extern", "", 0); }
static void world_lease(void) { unmounted(); must(!chmod(LEASE, 0777), LEASE); }
static void world_runs(void) { expect_all(); must(!chmod(STATE "/runs", 0777), "runs"); }
static void own_names(void)
{
	write_bytes(LEASE "/hosts", "10.8.0.1 node1\n", 15);
	write_bytes(LEASE "/resolv.conf", "nameserver 10.9.0.53\n", 21);
}
static void world_hosts(void) { own_names(); must(!chmod(LEASE "/hosts", 0666), "hosts"); }
static void link_hosts(void) { must(!symlink("/etc/shadow", LEASE "/hosts"), "hosts"); }
static void move_state(void) { must(!rename(STATE, "/run/elsewhere"), STATE); }
static void read_only_sys(void)
{
	must(!mount(NULL, "/sys", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC | MS_NOATIME, NULL),
	     "/sys");
}
static void usual_sys(void)
{
	must(!mount(NULL, "/sys", NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "/sys");
}

/* What is different for some tasks. */
static void second_task(void) { slurm.task = 1; }
static void batch_step(void) { slurm.step = SLURM_BATCH_SCRIPT; }
static void interactive_step(void) { slurm.step = SLURM_INTERACTIVE_STEP; }
static void single_batch_step(void) { batch_step(); spank_setenv(NULL, "SLURM_JOB_NUM_NODES", "1", 1); }
static void double_batch_step(void) { batch_step(); spank_setenv(NULL, "SLURM_JOB_NUM_NODES", "2", 1); kept = 1; }
static void has_gpus(void) { slurm.gres = "gpu:h100:4(IDX:0-3)"; }
static void has_nic(void) { slurm.gres = "gpu:4(IDX:0,2-4),nic:hdr:2(IDX:0,3)"; }
static void has_counted_nic(void) { slurm.gres = "nic:hdr(CNT:2)"; }
static void has_none(void) { slurm.gres = "nic:0(IDX:),nic(CNT:0),nicer:2(IDX:0-1)"; }
static void is_canceled(void) { slurm.gres = ""; slurm.state = JOB_CANCELLED | JOB_COMPLETING; }
static void canceled_before(void) { is_canceled(); slurm.started = 1; }
static void has_hca(void) { slurm.gres = "hca:1(IDX:0)"; }
static void began_before(void) { has_nic(); slurm.started = 1; }
static void batch_nic(void) { batch_step(); has_nic(); }
static void second_nic(void) { second_task(); has_nic(); }
static void not_asked(void) { check(slurm.asked == 0, "slurmctld was asked"); }
static void missed(void)
{
	char to[1024] = "";

	check(readlink(STATE "/runs/missed", to, sizeof(to) - 1) > 0 && !strncmp(to, "gresnet: job 4711: ", 19), "check is not told");
}
static void not_missed(void) { check(access(STATE "/runs/missed", F_OK) && errno == ENOENT && readlink(STATE "/runs/missed", (char[2]){0}, 1) == -1, "check is told"); }
static void extern_step(void) { slurm.step = SLURM_EXTERN_CONT; }
static void last_step(void) { slurm.step = SLURM_MAX_NORMAL_STEP_ID; }
static void run_unknown(void) { slurm.restarts = 0; }
static void run_unreadable(void) { slurm.restarts = 7; slurm.restarts_error = ESPANK_NOT_AVAIL; }
static void run_22(void) { slurm.restarts = 22; }
static void user_has_set(void)
{
	spank_setenv(NULL, "NCCL_IB_HCA", "users", 1);
	spank_setenv(NULL, "NCCL_IB_GID_INDEX", "7", 1);
	spank_setenv(NULL, "UCX_NET_DEVICES", "", 1);
	spank_setenv(NULL, "MELLANOX_VISIBLE_DEVICES", "all", 1);
	spank_setenv(NULL, "GRESNET_HCAS", "mlx5_0", 1);
}
static void private_container(void)
{
	must(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) &&
	     !mount("sandbox", "/tmp", "tmpfs", 0, NULL), "what job_container/tmpfs does");
}
static void in_directory(void) { must(!chdir("/usr/bin"), "/usr/bin"); }
static void no_infiniband(void)
{
	must(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) &&
	     !mount("sandbox", "/dev", "tmpfs", 0, NULL), "/dev");
}
/* What is looked at besides, for some. */
void check_env(const char *name, const char *want)
{
	const char *have = task_env(name);

	if (!have != !want || (want && strcmp(have, want)))
		fail("%s is %s, not %s", name, have ? have : "unset", want ? want : "unset");
}
static void exported(void)
{
	check_env("GRESNET_JOB", "4711");
	check_env("GRESNET_HCAS", "mlx5_1");
	check_env("NCCL_IB_HCA", "=mlx5_1:1");
	check_env("UCX_NET_DEVICES", "mlx5_1:1");
	check_env("GLOO_SOCKET_IFNAME", "ib1");
	check_env("TP_SOCKET_IFNAME", "");
	check_env("MELLANOX_VISIBLE_DEVICES", "none");
	check_env("NCCL_SOCKET_IFNAME", "=ib1");
	check_env("NCCL_IB_GID_INDEX", "3");
	check_env("GRESNET_LEASE", NULL);
	check_env("GRESNET_RUN", NULL);
	check_env("GRESNET_UID", NULL);
	check_env("GRESNET_NETNS", NULL);
	check_env("GRESNET_VARIABLES",
		  "NCCL_IB_HCA,UCX_NET_DEVICES,GLOO_SOCKET_IFNAME,TP_SOCKET_IFNAME,MELLANOX_VISIBLE_DEVICES,"
		  "NCCL_SOCKET_IFNAME,NCCL_IB_GID_INDEX");
	check_env("GRESNET_GAVE_NCCL_IB_HCA", "=mlx5_1:1");
	check_env("GRESNET_GAVE_GRESNET_HCAS", NULL);
	check(slurm.envs == 17, "other variables are set");
}
static void users_stay(void)
{
	check_env("NCCL_IB_HCA", "users");
	check_env("NCCL_IB_GID_INDEX", "7");
	check_env("UCX_NET_DEVICES", "");
	check_env("GLOO_SOCKET_IFNAME", "ib1");
	check_env("MELLANOX_VISIBLE_DEVICES", "none");
	check_env("GRESNET_HCAS", "mlx5_1");
}
/* A script inside, on another node or in another job, started this task with srun or sbatch. */
static void given_elsewhere(void)
{
	spank_setenv(NULL, "NCCL_IB_HCA", "=mlx5_7:1", 1);
	spank_setenv(NULL, "NCCL_SOCKET_IFNAME", "users", 1);
	spank_setenv(NULL, "UCX_TLS", "rc", 1);
	spank_setenv(NULL, "PATH", "/bin", 1);
	spank_setenv(NULL, "GRESNET_GPUS", "3", 1);
	spank_setenv(NULL, "GRESNET_GAVE_NCCL_IB_HCA", "=mlx5_7:1", 1);
	spank_setenv(NULL, "GRESNET_GAVE_NCCL_SOCKET_IFNAME", "=ib7", 1);
	spank_setenv(NULL, "GRESNET_GAVE_UCX_TLS", "rc", 1);
	spank_setenv(NULL, "GRESNET_GAVE_GONE", "1", 1);
	spank_setenv(NULL, "GRESNET_GAVE_", "", 1);
	kept = 2;
}
static void forgotten(void)
{
	check_env("NCCL_SOCKET_IFNAME", "users");
	check_env("UCX_TLS", NULL);
	check_env("PATH", "/bin");
	check_env("GRESNET_GPUS", NULL);
	check_env("GRESNET_GAVE_NCCL_SOCKET_IFNAME", NULL);
	check_env("GRESNET_GAVE_UCX_TLS", NULL);
}
static void given_again(void)
{
	forgotten();
	check_env("NCCL_IB_HCA", "=mlx5_1:1");
	check_env("GRESNET_GAVE_NCCL_IB_HCA", "=mlx5_1:1");
}
static void not_given(void)
{
	forgotten();
	check_env("NCCL_IB_HCA", NULL);
}
static void given_to_batch(void)
{
	given_elsewhere();
	batch_step();
}
static void all_exported(void) { check_env("GRESNET_X255", "255"); }
static int count_mounts(const char *at)
{
	char line[8192];
	char have[4096];
	int n = 0;
	FILE *file = fopen("/proc/self/mountinfo", "re");

	must(file != NULL, "/proc/self/mountinfo");
	while (fgets(line, sizeof(line), file))
		n += sscanf(line, "%*d %*d %*s %*s %4095s", have) == 1 && !strcmp(have, at);
	fclose(file);
	return n;
}
/* shared_inside: rootless podman warns where / is no shared mount. */
static void shared_inside(void)
{
	char line[8192];
	char options[64];
	bool found = false;
	FILE *file = fopen("/proc/self/mountinfo", "re");

	must(file != NULL, "/proc/self/mountinfo");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%*d %*d %*s %*s / %*s %63[^-]", options) == 1) {
			check(strstr(options, "shared:"), "/ is not shared among the job's mount namespaces");
			found = true;
		}
	check(found, "/ is not mounted");
	fclose(file);
}
/* The sandbox's /sys lies over the machine's, and the job's in its place. */
static void mounted_once(void)
{
	shared_inside();
	check(count_mounts("/sys") == 2, "the node's /sys is still there");
	check(count_mounts("/sys/firmware/efi") == 1, "/sys/firmware/efi is not mounted once");
	check(count_mounts("/sys/devices/virtual/net/host0") == 0, "the node's host0 is still there");
	check(!access(LEASE "/env", F_OK), STATE " is covered");
}
static void mount_sysfs(const void *argument)
{
	(void)argument;
	must(!unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET), "make a user's namespaces");
	check(!mount("sysfs", "/mnt", "sysfs", 0, NULL), "a user mounts no sysfs in namespaces of his own");
}
static void users_sysfs(void) { in_child(mount_sysfs, NULL); }
static void names_covered(void)
{
	check_text("/etc/hosts", "10.8.0.1 node1\n");
	check_text("/etc/resolv.conf", "nameserver 10.9.0.53\n");
	check(open("/etc/hosts", O_WRONLY | O_CLOEXEC) == -1, "/etc/hosts can be written");
}
/* A mount made now has the superblock that other tasks' /sys has. */
static void superblock_writable(void)
{
	struct statvfs fresh;

	must(!mount("sysfs", "/run", "sysfs", 0, NULL) && !statvfs("/run", &fresh), "/run");
	check(!(fresh.f_flag & ST_RDONLY), "the superblock is read-only");
}
/* says_in_output is what task_init writes to the task's stderr. */
static void says_in_output(char *into, ssize_t size)
{
	int err = dup(STDERR_FILENO);
	int ends[2];
	ssize_t n;

	must(err != -1 && !pipe2(ends, O_CLOEXEC) && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO, "stderr");
	close(ends[1]);
	check(slurm_spank_task_init(NULL, 0, NULL) == 0, "task_init fails");
	must(dup2(err, STDERR_FILENO) == STDERR_FILENO, "stderr");
	n = read(ends[0], into, (size_t)size - 1);
	must(n >= 0, "read");
	into[n] = '\0';
	close(ends[0]);
	close(err);
}
static void told(void)
{
	char said[1024];

	says_in_output(said, sizeof(said));
	if (!strstr(said, "inside its srun steps") || strchr(said, '\n') != said + strlen(said) - 1)
		fail("wrote \"%s\"", said);
}
/* told_why is told why the job has fewer HCAs, and nothing else. */
static void told_why(void)
{
	char said[1024];

	says_in_output(said, sizeof(said));
	if (strcmp(said, "gresnet: job 4711 has fewer HCAs: why\n"))
		fail("wrote \"%s\"", said);
}
/* told_of_a_loss: of the interface that the job no longer has, and of none that it has. */
static void told_of_a_loss(void)
{
	char said[1024];

	says_in_output(said, sizeof(said));
	if (strncmp(said, "gresnet: job 4711 no longer has ib7: ", 37) || strchr(said, '\n') != said + strlen(said) - 1)
		fail("wrote \"%s\"", said);
}
static void told_and_noticed(void)
{
	char said[1024];

	says_in_output(said, sizeof(said));
	check(strstr(said, "inside its srun steps") && strstr(said, "\ngresnet: job 4711 has fewer HCAs: why\n"), said);
}
static void not_told(void)
{
	char said[1024];

	says_in_output(said, sizeof(said));
	if (*said)
		fail("wrote \"%s\"", said);
}
/* What hybrid nodes have: a tmpfs, and on it a mount for each controller. */
static void cgroup_v1(void)
{
	must(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL), "unshare");
	must(!mount("sandbox", "/sys/fs/cgroup", "tmpfs", 0, "mode=0755"), "/sys/fs/cgroup");
	must(!mkdir("/sys/fs/cgroup/devices", 0755) && !mkdir("/sys/fs/cgroup/memory", 0755), "controllers");
	must(!mount("devices", "/sys/fs/cgroup/devices", "tmpfs", 0, NULL) && !mkdir("/sys/fs/cgroup/devices/slurm", 0755) &&
	     !mount("memory", "/sys/fs/cgroup/memory", "tmpfs", MS_RDONLY, NULL), "controllers");
}
static void cgroup_v1_there(void)
{
	struct statvfs memory;

	check_names("/sys/fs/cgroup", "devices memory ");
	check_names("/sys/fs/cgroup/devices", "slurm ");
	must(!statvfs("/sys/fs/cgroup/memory", &memory), "memory");
	check(memory.f_flag & ST_RDONLY, "/sys/fs/cgroup/memory is not read-only");
}
static void user_namespace(void) { must(!unshare(CLONE_NEWUSER), "make a user namespace"); }

/* identical_user_namespace is one as Slurm 26.05 makes it; only who is outside may map all users. */
static void identical_user_namespace(void)
{
	int made[2];
	char path[64], byte;
	pid_t mapper;

	snprintf(path, sizeof(path), "/proc/%d/uid_map", getpid());
	must(!pipe(made), "pipe");
	mapper = fork();
	must(mapper != -1, "fork");
	if (mapper == 0) {
		must(read(made[0], &byte, 1) == 1, "read");
		write_bytes(path, "0 0 4294967295\n", strlen("0 0 4294967295\n"));
		_exit(0);
	}
	user_namespace();
	must(write(made[1], "", 1) == 1 && waitpid(mapper, NULL, 0) == mapper, "map all users");
}

static void own_run(void)
{
	private_container();
	must(!mount("sandbox", "/run", "tmpfs", 0, NULL), "/run");
}
/* What namespace/linux does for a folder in dirs. */
static void bound_run(void)
{
	private_container();
	must(!mkdir("/tmp/run", 0700) && !mount("/tmp/run", "/run", NULL, MS_BIND, NULL), "/run");
}

/* die_with ends a process as its child ended. */
static void die_with(pid_t child)
{
	int status;

	must(waitpid(child, &status, 0) == child, "wait");
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}

void own_pids(void)
{
	pid_t child;

	must(!unshare(CLONE_NEWPID), "make a PID namespace");
	child = fork();
	must(child != -1, "fork");
	if (child)
		die_with(child);
	must(!mount("proc", "/proc", "proc", 0, NULL), "/proc");
	child = fork();
	must(child != -1, "fork");
	if (child)
		die_with(child);
}
static void bound_run_and_pids(void) { bound_run(); own_pids(); }
static void own_run_and_pids(void) { own_run(); own_pids(); }
static void container_and_pids(void) { private_container(); own_pids(); }

/* The state directory on a root file system that is a part of one, as with btrfs. */
static void root_of_a_subvolume(void)
{
	private_container();
	must(!mkdir("/tmp/@", 0755) && !mount("/tmp/@", "/tmp/@", NULL, MS_BIND, NULL), "/tmp/@");
	must(!mkdir("/tmp/@/proc", 0755) && !mount("/proc", "/tmp/@/proc", NULL, MS_BIND | MS_REC, NULL), "/proc");
	must(!mkdir("/tmp/@/sys", 0755) && !mount("/sys", "/tmp/@/sys", NULL, MS_BIND | MS_REC, NULL), "/sys");
	must(!chroot("/tmp/@") && !chdir("/"), "chroot");
}
static void no_rdma(void)
{
	private_container();
	must(!umount2("/sys/class", MNT_DETACH), "/sys/class");
	listed = NO_CLASSES;
}
/* owner_is has the task's kernel say another HCA of uverbs1. */
static void owner_is(const char *text)
{
	private_container();
	write_bytes("/tmp/ibdev", text, strlen(text));
	must(!mount("/tmp/ibdev", "/sys/class/devices/uverbs1/ibdev", NULL, MS_BIND, NULL), "ibdev");
}
static void hca_is_gone(void)
{
	owner_is("");
	listed = LISTED_NONE;
}
static void long_owner(void) { owner_is("1234567890123456789012345678901234567890123456789012345678901234"); }
static void no_directory(void) { check(access("/dev/infiniband", F_OK) == -1, "/dev/infiniband was made"); }

#define EXPORTS                                                                                                  \
	"GRESNET_HCAS=mlx5_1\nNCCL_IB_HCA==mlx5_1:1\nUCX_NET_DEVICES=mlx5_1:1\nGLOO_SOCKET_IFNAME=ib1\n"          \
	"TP_SOCKET_IFNAME=\nMELLANOX_VISIBLE_DEVICES=none\nNCCL_SOCKET_IFNAME==ib1\nNCCL_IB_GID_INDEX=3\n"

static char notice_off[] = "notice=off";
static char batch_enters[] = "batch";
static char single_enters[] = "batch=single";
static char auto_enters[] = "batch=auto";
static char all_enter[] = "all";
static char allow_none[] = "allow=none";
static char bad_argument[] = "stat=/run/gresnet";
static char relative_argument[] = "state=run/gresnet";
static char home_argument[] = "state=/run/gresnet";
static char moved_argument[] = "state=/run/elsewhere";

static const struct row rows[] = {
	{"a lease", INSIDE, NULL, HEAD NETNS EXPORTS, .then = exported},
	{"a kernel without RDMA", INSIDE, NULL, .task = no_rdma},
	{"an HCA that is just going", INSIDE, NULL, .task = hca_is_gone},
	{"an HCA with too long a name", SHUT_IN, "read uverbs1/ibdev of /sys/class: too long", .task = long_owner},
	{"what is mounted afterwards", INSIDE, NULL, .then = mounted_once},
	{"a user's own sysfs", INSIDE, NULL, .then = users_sysfs},
	{"a user's own sysfs, in the node's network", IN_NODES, NULL, HEAD "GRESNET_NETNS=node\n", .spoil = no_netns, .then = users_sysfs},
	{"/sys read-only", INSIDE, NULL, .spoil = read_only_sys, .then = superblock_writable},
	{"/sys no longer read-only", INSIDE, NULL, .spoil = usual_sys},
	{"what the user has set", INSIDE, NULL, HEAD NETNS EXPORTS, .task = user_has_set, .then = users_stay},
	{"what a plugin gave elsewhere", INSIDE, NULL, HEAD NETNS EXPORTS, .task = given_elsewhere, .then = given_again},
	{"what a plugin gave elsewhere, no lease", OUTSIDE, NULL, .spoil = no_lease, .task = given_elsewhere,
	 .then = not_given},
	{"what a plugin gave elsewhere, batch step", OUTSIDE, NULL, .task = given_to_batch, .then = not_given},
	{"what a plugin gave elsewhere, --gresnet=none", WITHOUT, NULL, .task = given_elsewhere, .then = not_given,
	 .argument = allow_none, .option = "none"},
	{"a working directory", INSIDE, NULL, .task = in_directory},
	{"in a private mount namespace", INSIDE, NULL, .task = private_container},
	{"nothing to export", INSIDE, NULL, HEAD NETNS},
	{"the last normal step", INSIDE, NULL, .task = last_step},
	{"as many lines as may be", INSIDE, NULL, .spoil = most_lines, .then = all_exported},
	{"as long a line as may be", INSIDE, NULL, .spoil = longest_line},
	{"a run with SLUID", INSIDE, NULL,
	 "GRESNET_LEASE=1\nGRESNET_JOB=4711\nGRESNET_RUN=2/s6QX3Y0R0000\nGRESNET_UID=1000\n" NETNS},
	{"run always 0, as in Slurm 22.05", INSIDE, NULL, .task = run_unknown},
	{"run unreadable", INSIDE, NULL, .task = run_unreadable},
	{"leases elsewhere", INSIDE, NULL, .spoil = move_state, .argument = moved_argument},
	{"names of a job with an uplink", INSIDE, NULL, .spoil = own_names, .then = names_covered},
	{"hosts that all can write", SHUT_IN, "hosts can be written by others than root", .spoil = world_hosts},
	{"hosts that are a link", SHUT_IN, "hosts", .spoil = link_hosts},

	{"no lease", OUTSIDE, NULL, .spoil = no_lease},
	{"no state directory", OUTSIDE, NULL, .spoil = no_state},
	{"batch step", OUTSIDE, NULL, .task = batch_step},
	{"interactive step", OUTSIDE, NULL, .task = interactive_step},
	{"extern step", OUTSIDE, NULL, .task = extern_step},
	{"batch step, broken lease", OUTSIDE, "not complete", .spoil = no_env, .task = batch_step, .then = not_told},
	{"batch step, refused", OUTSIDE, "refused: why", HEAD "GRESNET_REFUSED=why\n", .task = batch_step, .then = not_told},
	{"batch step, no notice, broken lease", OUTSIDE, "not complete", .spoil = no_env, .task = batch_step, .then = not_told,
	 .argument = notice_off},
	{"batch step is told", OUTSIDE, NULL, .task = batch_step, .then = told},
	{"interactive step is told", OUTSIDE, NULL, .task = interactive_step, .then = told},
	{"batch step, no notice", OUTSIDE, NULL, .task = batch_step, .then = not_told, .argument = notice_off},
	{"batch step, no lease", OUTSIDE, NULL, .spoil = no_lease, .task = batch_step, .then = not_told},
	{"step is not told", INSIDE, NULL, .then = not_told},
	{"no record, and slurmctld does not answer", SHUT_IN, "slurmctld does not say", .spoil = expect_nic, .then = missed},
	{"no record, and a NIC", SHUT_IN, "gresnet-prolog did not run to its end", .spoil = expect_nic, .task = has_nic, .then = missed},
	{"no record, and a NIC, second task", SHUT_IN, NULL, .spoil = expect_nic, .task = second_nic},
	{"no record, and a NIC without a file", SHUT_IN, "gresnet-prolog did not run to its end", .spoil = expect_nic, .task = has_counted_nic},
	{"no record, and a NIC, batch step", OUTSIDE, NULL, .spoil = expect_nic, .task = batch_nic, .then = missed},
	{"no record, and a NIC, batch step inside", SHUT_IN, "gresnet-prolog did not run to its end", .spoil = expect_nic, .task = batch_nic, .argument = batch_enters},
	{"no record, and GPUs alone", OUTSIDE, NULL, .spoil = expect_nic, .task = has_gpus, .then = not_missed},
	{"no record, and no GRES that is meant", OUTSIDE, NULL, .spoil = expect_nic, .task = has_none, .then = not_missed},
	{"no record, where all jobs leave one", SHUT_IN, "gresnet-prolog did not run to its end", .spoil = expect_all, .task = has_none, .then = missed},
	{"no record, of a job that is older than records", OUTSIDE, NULL, .spoil = expect_all, .task = began_before, .then = not_missed},
	{"no record, of a job that is canceled", SHUT_IN, "slurmctld does not say", .spoil = expect_nic, .task = is_canceled, .then = missed},
	{"no record, of a canceled job that is older than records", OUTSIDE, NULL, .spoil = expect_nic, .task = canceled_before, .then = not_missed},
	{"no record, of a prolog that leaves none, after a new epilog", OUTSIDE, NULL, .spoil = only_records, .task = has_nic, .then = not_asked},
	{"no record, and no configuration", OUTSIDE, NULL, .spoil = no_state, .task = has_nic, .then = not_asked},
	{"no record, and a list that does not read", SHUT_IN, "nobody can read whether it had to", .spoil = expect_file, .task = has_gpus, .then = not_asked},
	{"no record, and nothing has run since the boot, setup has said which", SHUT_IN, "gresnet-prolog did not run to its end", .spoil = set_up_and_no_state, .task = has_hca},
	{"no record, and nothing has run since the boot, setup has said others", OUTSIDE, NULL, .spoil = set_up_and_no_state, .task = has_nic},
	{"no record, and no prolog since the boot", SHUT_IN, "gresnet-prolog did not run to its end", .spoil = set_up_and_folders, .task = has_hca, .then = missed},
	{"no record, and a prolog since the boot has said others than setup", OUTSIDE, NULL, .spoil = set_up_and_expected, .task = has_gpus},
	{"no record, --gresnet=none", WITHOUT, NULL, .spoil = expect_nic, .task = has_nic, .argument = allow_none, .option = "none"},
	{"a record of success", OUTSIDE, NULL, .spoil = fine, .task = has_nic, .then = not_asked},
	{"a record of success, and no lease any more", SHUT_IN, "the lease that gresnet-prolog took is gone", .spoil = lost, .then = not_asked},
	{"a record of failure", SHUT_IN, "gresnet-prolog failed, and /etc/slurm/prolog.sh went on: read ? gresnet.toml: line 3 [GN001]; hint", .spoil = swallowed, .then = missed},
	{"a record of failure without its reason", SHUT_IN, "gresnet-prolog failed, and its caller went on: slurmd's log", .spoil = swallowed_full, .then = missed},
	{"a record of failure beside a lease", INSIDE, NULL, .spoil = held_and_swallowed, .then = not_asked},
	{"a lease that vanishes after the step has begun", SHUT_IN, "the lease that gresnet-prolog took is gone", .spoil = unmounted, .meanwhile = vanish, .then = not_asked},
	{"a lease that vanishes, second task", SHUT_IN, NULL, .spoil = unmounted, .task = second_task, .meanwhile = vanish},
	{"a marked lease that vanishes", SHUT_IN, "the lease that gresnet-prolog took is gone", .spoil = marked, .meanwhile = vanish, .then = not_asked},
	{"a lease that vanishes with the state directory", SHUT_IN, "the lease that gresnet-prolog took is gone", .spoil = unmounted, .meanwhile = vanish_with_records},
	{"a lease that cannot be trusted, and vanishes", SHUT_IN, "the lease that gresnet-prolog took is gone", .spoil = world_lease, .meanwhile = vanish_trusted},
	{"a lease that vanishes, batch step", OUTSIDE, NULL, .spoil = unmounted, .task = batch_step, .meanwhile = vanish, .then = not_told},
	{"a lease that vanishes, batch step inside", SHUT_IN, "the lease that gresnet-prolog took is gone", .spoil = unmounted, .task = batch_step, .meanwhile = vanish, .argument = batch_enters},
	{"a lease that vanishes, --gresnet=none", WITHOUT, NULL, .spoil = unmounted, .meanwhile = vanish, .argument = allow_none, .option = "none"},
	{"records that all can write", SHUT_IN, "cannot be trusted", .spoil = world_runs},
	{"fewer HCAs", INSIDE, NULL, .spoil = notice, .then = told_why},
	{"fewer HCAs, second task", INSIDE, NULL, .spoil = notice, .task = second_task, .then = not_told},
	{"fewer HCAs, no lease", OUTSIDE, NULL, .spoil = notice_alone, .then = told_why},
	{"fewer HCAs, no lease, batch step", OUTSIDE, NULL, .spoil = notice_alone, .task = batch_step, .then = told_why},
	{"fewer HCAs, batch step", OUTSIDE, NULL, .spoil = notice, .task = batch_step, .then = told_and_noticed},
	{"fewer HCAs, no notice", INSIDE, NULL, .spoil = notice, .then = not_told, .argument = notice_off},
	{"fewer HCAs, --gresnet=none", WITHOUT, NULL, .spoil = notice, .then = not_told, .argument = allow_none, .option = "none"},
	{"fewer HCAs, another job", INSIDE, NULL, .spoil = others_notice, .then = not_told},
	{"an interface that the job lost", INSIDE, NULL, HEAD NETNS "GRESNET_INTERFACES=job0,ib7\n", .then = told_of_a_loss},
	{"an interface that the job lost, another task", INSIDE, NULL, HEAD NETNS "GRESNET_INTERFACES=job0,ib7\n", .task = second_task, .then = not_told},
	{"a notice that all can write", INSIDE, NULL, .spoil = world_notice, .then = not_told},
	{"batch step with batch", INSIDE, NULL, .task = batch_step, .then = not_told, .argument = batch_enters},
	{"batch step with batch, broken lease", SHUT_IN, "not complete", .spoil = no_env, .task = batch_step,
	 .argument = batch_enters},
	{"interactive step with batch", OUTSIDE, NULL, .task = interactive_step, .argument = batch_enters},
	{"batch step of a job of one node with batch=single", INSIDE, NULL, .task = single_batch_step, .then = not_told,
	 .argument = single_enters},
	{"batch step of a job of two nodes with batch=single", OUTSIDE, NULL, .task = double_batch_step, .then = told,
	 .argument = single_enters},
	{"batch step of who knows how many nodes with batch=single", OUTSIDE, NULL, .task = batch_step, .then = told,
	 .argument = single_enters},
	{"batch step with batch=auto where srun works inside", INSIDE, NULL, HEAD NETNS "GRESNET_SRUN=yes\n",
	 .task = batch_step, .then = not_told, .argument = auto_enters},
	{"batch step with batch=auto where srun does not", OUTSIDE, NULL, HEAD NETNS "GRESNET_SRUN=no\n",
	 .task = batch_step, .then = told, .argument = auto_enters},
	{"batch step with batch=auto and the lease of an older prolog", OUTSIDE, NULL, HEAD NETNS,
	 .task = batch_step, .then = told, .argument = auto_enters},
	{"batch step with batch=auto, broken lease", SHUT_IN, "not complete", .spoil = no_env, .task = batch_step,
	 .argument = auto_enters},
	{"interactive step with batch=auto", OUTSIDE, NULL, HEAD NETNS "GRESNET_SRUN=yes\n", .task = interactive_step,
	 .argument = auto_enters},
	{"batch step with all", INSIDE, NULL, .task = batch_step, .argument = all_enter},
	{"interactive step with all", INSIDE, NULL, .task = interactive_step, .argument = all_enter},
	{"extern step with all", OUTSIDE, NULL, .task = extern_step, .argument = all_enter},

	{"--gresnet=none allowed", WITHOUT, NULL, .argument = allow_none, .option = "none"},
	{"--gresnet=none, no lease", WITHOUT, NULL, .spoil = no_lease, .argument = allow_none, .option = "none"},
	{"--gresnet=none, no /dev/infiniband", WITHOUT, NULL, .task = no_infiniband, .argument = allow_none,
	 .option = "none", .then = no_directory},
	{"--gresnet=none in a batch script", WITHOUT, NULL, .task = batch_step, .argument = allow_none, .option = "none"},
	{"--gresnet=none not allowed", SHUT_IN, "--gresnet=none is not allowed on this node", .option = "none"},
	{"--gresnet=none not allowed, no lease", SHUT_IN, "not allowed", .spoil = no_lease, .option = "none"},
	{"--gresnet=all", SHUT_IN, "unknown value", .argument = allow_none, .option = "all"},
	{"--gresnet= with nothing", SHUT_IN, "unknown value", .argument = allow_none, .option = ""},
	{"--gresnet without a value", SHUT_IN, "unknown value", .argument = allow_none, .option = NO_VALUE},

	{"cgroup v1 below /sys", INSIDE, NULL, .task = cgroup_v1, .then = cgroup_v1_there},
	{"in a user namespace", SHUT_IN, "in a user namespace", .task = user_namespace},
	{"in a user namespace of all users", SHUT_IN, "network namespace: Operation not permitted; hint: take CLONE_NEWUSER",
	 .task = identical_user_namespace},
	{"a /run of the container's own", SHUT_IN, "the lease is hidden from the task", .task = own_run},
	{"a /run bound by a container with its own processes", SHUT_IN, "a lease would be hidden from the task",
	 .task = bound_run_and_pids},
	{"a /run made by a container with its own processes", SHUT_IN, "a lease would be hidden from the task",
	 .task = own_run_and_pids},
	{"the node's /run in a container with its own processes", INSIDE, NULL, .task = container_and_pids},
	{"the same, no lease", OUTSIDE, NULL, .spoil = no_lease, .task = container_and_pids},
	{"the same, no state directory", OUTSIDE, NULL, .spoil = no_state, .task = container_and_pids},
	{"no state directory, the root file system a part of one", OUTSIDE, NULL, .spoil = no_state, .task = root_of_a_subvolume},
	{"a /run of the container's own, no lease", OUTSIDE, NULL, .spoil = no_lease, .task = own_run},

	{"refused", SHUT_IN, "job 4711: refused: gres nic: 9 wanted, 8 here", HEAD "GRESNET_REFUSED=gres nic: 9 wanted, 8 here\n"},
	{"refused, the node's second task", SHUT_IN, NULL, HEAD "GRESNET_REFUSED=why\n", .task = second_task},
	{"--gresnet=none not allowed, the node's second task", SHUT_IN, NULL, .task = second_task, .option = "none"},
	{"unknown argument, the node's second task", SHUT_IN, NULL, .task = second_task, .argument = bad_argument},
	{"env missing, the node's second task", SHUT_IN, "not complete", .spoil = no_env, .task = second_task},
	{"refused with more lines", SHUT_IN, "refused: why", HEAD "GRESNET_REFUSED=why\nPATH=/tmp\n"},
	{"refused, another run", SHUT_IN, "lease of another run", HEAD "GRESNET_REFUSED=why\n", .task = run_22},
	{"the plugin's own variable", SHUT_IN, "GRESNET_VARIABLES is not allowed", HEAD NETNS "GRESNET_VARIABLES=PATH\n"},
	{"refused and not", SHUT_IN, "GRESNET_REFUSED is not allowed", HEAD NETNS "GRESNET_REFUSED=why\n"},

	{"env missing", SHUT_IN, "not complete: it has no env", .spoil = no_env},
	{"env empty", SHUT_IN, "no content", .spoil = empty_env},
	{"env of 1 MB", SHUT_IN, "more than 65536", .spoil = big_env},
	{"env with NUL", SHUT_IN, "unprintable byte at 64", .spoil = nul_env},
	{"env with carriage return", SHUT_IN, "unprintable byte", HEAD NETNS "NCCL_IB_HCA==mlx5_1\r\n"},
	{"env with escape", SHUT_IN, "unprintable byte", HEAD "GRESNET_REFUSED=\033[2J\n"},
	{"env with 8-bit", SHUT_IN, "unprintable byte", HEAD NETNS "NCCL_IB_HCA=\303\244\n"},
	{"env cut off", SHUT_IN, "cut off", HEAD NETNS "NCCL_IB_HCA==mlx5"},
	{"env with an empty line", SHUT_IN, "line 6 of env is not NAME=VALUE", HEAD NETNS "\nNCCL_IB_HCA==mlx5_1\n"},
	{"env of empty lines", SHUT_IN, "does not begin with", "\n\n\n"},
	{"env with no equals sign", SHUT_IN, "line 6 of env is not NAME=VALUE", HEAD NETNS "NCCL_IB_HCA\n"},
	{"env with no name", SHUT_IN, "line 6 of env is not NAME=VALUE", HEAD NETNS "=INFO\n"},
	{"env with too many lines", SHUT_IN, "more than 256 lines", .spoil = many_lines},
	{"env with too long a name", SHUT_IN, "too long", .spoil = long_name},
	{"env with too long a value", SHUT_IN, "too long", .spoil = long_value},
	{"env with head only", SHUT_IN, "line 5 of env is not GRESNET_NETNS", HEAD},
	{"env with version only", SHUT_IN, "line 2 of env is not GRESNET_JOB", "GRESNET_LEASE=1\n"},
	{"env in another order", SHUT_IN, "line 2 of env is not GRESNET_JOB",
	 "GRESNET_LEASE=1\nGRESNET_UID=1000\nGRESNET_JOB=4711\nGRESNET_RUN=2\n" NETNS},
	{"env with a space before", SHUT_IN, "does not begin with", " " HEAD NETNS},
	{"LD_PRELOAD", SHUT_IN, "LD_PRELOAD is not allowed", HEAD NETNS "LD_PRELOAD=/tmp/x.so\n"},
	{"PATH", SHUT_IN, "PATH is not allowed", HEAD NETNS "NCCL_IB_HCA==mlx5_1\nPATH=/tmp\n"},
	{"a variable by which NCCL loads code", SHUT_IN, "NCCL_NET_PLUGIN is not allowed", HEAD NETNS "NCCL_NET_PLUGIN=/tmp/x.so\n"},
	{"a variable by which UCX loads code", SHUT_IN, "UCX_MODULE_DIR is not allowed", HEAD NETNS "UCX_MODULE_DIR=/tmp\n"},
	{"a name that begins like one", SHUT_IN, "NCCL_IB_HCAS is not allowed", HEAD NETNS "NCCL_IB_HCAS=1\n"},
	{"a name that one begins with", SHUT_IN, "NCCL_IB is not allowed", HEAD NETNS "NCCL_IB=1\n"},
	{"a prefix alone", SHUT_IN, "GRESNET_ is not allowed", HEAD NETNS "GRESNET_=1\n"},
	{"a name in lower case", SHUT_IN, "GRESNET_debug is not allowed", HEAD NETNS "GRESNET_debug=1\n"},
	{"a name with a space", SHUT_IN, "GRESNET_A B is not allowed", HEAD NETNS "GRESNET_A B=1\n"},
	{"a name twice", SHUT_IN, "GRESNET_NETNS is there twice", HEAD NETNS "GRESNET_NETNS=4:1\n"},
	{"foreign version", SHUT_IN, "foreign version: the lease has format 2", "GRESNET_LEASE=2\nwhatever\n"},
	{"foreign version 10", SHUT_IN, "the lease has format 10,", "GRESNET_LEASE=10\n"},
	{"wrong job", SHUT_IN, "GRESNET_JOB is 4712, not 4711",
	 "GRESNET_LEASE=1\nGRESNET_JOB=4712\nGRESNET_RUN=2\nGRESNET_UID=1000\n" NETNS},
	{"job with a zero before", SHUT_IN, "GRESNET_JOB is 04711",
	 "GRESNET_LEASE=1\nGRESNET_JOB=04711\nGRESNET_RUN=2\nGRESNET_UID=1000\n" NETNS},
	{"wrong run", SHUT_IN, "lease of another run: this is run 22", .task = run_22},
	{"run without number", SHUT_IN, "not a restart count: /s6QX",
	 "GRESNET_LEASE=1\nGRESNET_JOB=4711\nGRESNET_RUN=/s6QX\nGRESNET_UID=1000\n" NETNS, .task = run_unknown},
	{"run with more than SLUID", SHUT_IN, "not a restart count: 2s",
	 "GRESNET_LEASE=1\nGRESNET_JOB=4711\nGRESNET_RUN=2s\nGRESNET_UID=1000\n" NETNS},
	{"wrong uid", SHUT_IN, "GRESNET_UID is 0, not 1000",
	 "GRESNET_LEASE=1\nGRESNET_JOB=4711\nGRESNET_RUN=2\nGRESNET_UID=0\n" NETNS},

	{"env not root's", SHUT_IN, "env can be written by others than root (uid 1000", .spoil = chown_env},
	{"env writable by group", SHUT_IN, "env can be written by others", .spoil = group_env},
	{"env writable by all", SHUT_IN, "env can be written by others", .spoil = world_env},
	{"env a symbolic link", SHUT_IN, "open env: Too many levels", .spoil = link_env},
	{"env a fifo", SHUT_IN, "env is not a regular file", .spoil = fifo_env},
	{"env a directory", SHUT_IN, "env is not a regular file", .spoil = dir_env},
	{"jobs a symbolic link", SHUT_IN, "open lease directory jobs: Not a directory", .spoil = link_jobs},
	{"jobs writable by all", SHUT_IN, "jobs can be written by others", .spoil = open_jobs},
	{"lease a symbolic link", SHUT_IN, "open lease directory 4711: Not a directory", .spoil = link_lease},
	{"lease not root's", SHUT_IN, "4711 can be written by others", .spoil = chown_lease},

	{"netns missing", SHUT_IN, "open netns: No such file", .spoil = no_netns},
	{"netns an ordinary file", SHUT_IN, "netns is not a network namespace", .spoil = file_netns},
	{"netns a uts namespace", SHUT_IN, "netns is not a network namespace", .spoil = uts_netns},
	{"netns a fifo", SHUT_IN, "netns is not a network namespace", .spoil = fifo_netns},
	{"netns a symbolic link", SHUT_IN, "open netns: Too many levels", .spoil = link_netns},
	{"netns of another inode", SHUT_IN, "env says 4:1", HEAD "GRESNET_NETNS=4:1\n"},
	{"netns the node's own", SHUT_IN, "the node's own network namespace", .spoil = own_netns},

	{"a job in the node's network", IN_NODES, NULL, HEAD "GRESNET_NETNS=node\n", .spoil = no_netns},
	{"a job in the node's network, batch step", IN_NODES, NULL, HEAD "GRESNET_NETNS=node\n", .spoil = no_netns,
	 .task = batch_step, .then = not_told},
	{"a job in the node's network, extern step", OUTSIDE, NULL, HEAD "GRESNET_NETNS=node\n", .spoil = no_netns,
	 .task = extern_step},
	{"a job in the node's network that has one", SHUT_IN, "netns is there", HEAD "GRESNET_NETNS=node\n"},
	{"a job of another word's network", SHUT_IN, "env says nodes", HEAD "GRESNET_NETNS=nodes\n"},

	{"dev missing", SHUT_IN, "open dev: No such file", .spoil = no_devices},
	{"dev not mounted", SHUT_IN, "nothing is mounted at dev", .spoil = bare_devices},
	{"dev writable by all", SHUT_IN, "dev can be written by others", .spoil = world_devices},
	{"no /dev/infiniband", SHUT_IN, "hint: load ib_uverbs", .task = no_infiniband, .then = no_directory},

	{"unknown argument", SHUT_IN, "not set up on this node; hint: slurmd's log has", .argument = bad_argument},
	{"unknown argument, job without a lease", SHUT_IN, "not set up", .spoil = no_lease,
	 .argument = bad_argument},
	{"relative state directory", SHUT_IN, "not set up", .argument = relative_argument},
	{"arguments that exclude each other", SHUT_IN, "not set up", .argument = batch_enters, .another = all_enter},
	{"two state directories", SHUT_IN, "not set up", .argument = moved_argument, .another = home_argument},
	{"an argument twice", INSIDE, NULL, .task = batch_step, .argument = all_enter, .another = all_enter},
	{"arguments about different things", INSIDE, NULL, .task = batch_step, .argument = notice_off, .another = all_enter},
};

void check_said(const char *text)
{
	if (text ? !strstr(slurm.said, text) : *slurm.said)
		fail("said \"%s\"", slurm.said);
	if (text && strchr(slurm.said, '\n') != slurm.said + strlen(slurm.said) - 1)
		fail("said more than one line: %s", slurm.said);
}

/* run_task is what slurmstepd does in the process that becomes the task. */
static void run_task(const void *argument)
{
	const struct row *row = argument;
	char *argv[] = {row->argument, row->another, NULL};
	int argc = row->another ? 2 : row->argument ? 1 : 0;
	struct view before;
	int rc;

	slurm = (struct slurm){.context = S_CTX_REMOTE, .job = 4711, .step = 0, .restarts = 2, .uid = 1000, .started = time(NULL) + 60};
	if (row->task)
		row->task();
	rc = slurm_spank_init(NULL, argc, argv);
	if (row->option)
		slurm.option.cb(0, strcmp(row->option, NO_VALUE) ? row->option : NULL, 1);
	look(&before);
	*slurm.said = '\0'; /* slurmd's log has it: see run_init */
	if (row->meanwhile)
		row->meanwhile();
	if (!rc)
		rc = slurm_spank_task_init_privileged(NULL, argc, argv);
	check(rc == 0, "the callback fails");
	check_said(row->says);
	if (row->where == INSIDE)
		check_inside(&before);
	if (row->where == OUTSIDE)
		check_outside(&before);
	if (row->where == WITHOUT)
		check_without(&before);
	if (row->where == IN_NODES)
		check_in_nodes(&before);
	if (row->where == SHUT_IN)
		check_shut_in(&before);
	if (row->then)
		row->then();
}

/* read_mounts leaves out what is below /tmp, where others' tests come and go: a
 * mount ends here, too, when its directory is removed there. */
static void read_mounts(char *into, size_t size)
{
	char line[8192];
	size_t have = 0;
	FILE *file = fopen("/proc/self/mountinfo", "re");

	must(file != NULL, "/proc/self/mountinfo");
	*into = '\0';
	while (fgets(line, sizeof(line), file))
		if (!strstr(line, " /tmp/") && have < size)
			have += (size_t)snprintf(into + have, size - have, "%s", line);
	fclose(file);
}

/* in_child runs f in a process of its own, as each task has one, under a
 * deadline: a case that hangs is one that fails. */
void in_child(void (*f)(const void *), const void *argument)
{
	int status;
	pid_t child = fork();

	must(child != -1, "fork");
	if (child == 0) {
		alarm(HANGS);
		f(argument);
		exit(0);
	}
	must(waitpid(child, &status, 0) == child, "wait");
	if (WIFSIGNALED(status))
		fail("killed by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		fail("exit %d", WEXITSTATUS(status));
}

bool report(const char *name)
{
	bool ok = !*wrong;

	printf("%s %s%s%s\n", ok ? "ok  " : "FAIL", name, ok ? "" : ": ", wrong);
	*wrong = '\0';
	return ok;
}

static bool run_row(const struct row *row)
{
	static char before[1 << 17], after[1 << 17];

	lease_make();
	if (row->env)
		write_env(row->env);
	if (row->spoil)
		row->spoil();
	read_mounts(before, sizeof(before));
	in_child(run_task, row);
	read_mounts(after, sizeof(after));
	check(!strcmp(before, after), "the node's mounts have changed");
	lease_drop();
	return report(row->name);
}

/* Where plugstack.conf has a mistake, who is kept from what. */
static const struct init {
	const char *name;
	spank_context_t context;
	int want;
	bool says;
	bool step;
} inits[] = {
	{"bad argument in slurmstepd, batch script", S_CTX_REMOTE, -1, true},
	{"bad argument in slurmstepd, step", S_CTX_REMOTE, 0, true, .step = true},
	{"bad argument in slurmd", S_CTX_SLURMD, 0, true},
	{"bad argument in srun", S_CTX_LOCAL, 0, false},
	{"bad argument in sbatch", S_CTX_ALLOCATOR, 0, false},
	{"bad argument in a prolog", S_CTX_JOB_SCRIPT, 0, false},
};

static bool run_init(const struct init *init)
{
	char *argv[] = {bad_argument, NULL};
	int rc;

	slurm = (struct slurm){.context = init->context, .step = init->step ? 0 : SLURM_BATCH_SCRIPT};
	rc = slurm_spank_init(NULL, 1, argv);
	if (rc != init->want)
		fail("returned %d, not %d", rc, init->want);
	check(!!strstr(slurm.said, "unknown argument") == init->says, "said the wrong thing");
	slurm = (struct slurm){.context = init->context};
	rc = slurm_spank_init(NULL, 0, argv + 1);
	check(rc == 0 && !*slurm.said, "no argument is wrong, too");
	return report(init->name);
}

/* run_mark is the extern step's init, of a job with a lease and of one without;
 * other steps leave no mark. */
static bool run_mark(void)
{
	char *argv[] = {NULL};

	lease_make();
	slurm = (struct slurm){.context = S_CTX_REMOTE, .job = 4711, .step = 0};
	check(slurm_spank_init(NULL, 0, argv) == 0 && access(LEASE "/extern", F_OK), "a step marked the lease");
	slurm.step = SLURM_EXTERN_CONT;
	check(slurm_spank_init(NULL, 0, argv) == 0 && !access(LEASE "/extern", F_OK), "the lease is not marked");
	check(slurm_spank_init(NULL, 0, argv) == 0 && !*slurm.said, "a second mark is wrong");
	must(!unlink(LEASE "/extern") && !symlink("/etc/passwd", LEASE "/extern"), "extern");
	check(slurm_spank_init(NULL, 0, argv) == 0 && strstr(slurm.said, "mark the lease: Too many levels"), "a symbolic link was followed");
	lease_drop();
	slurm = (struct slurm){.context = S_CTX_REMOTE, .job = 4711, .step = SLURM_EXTERN_CONT};
	check(slurm_spank_init(NULL, 0, argv) == 0 && !*slurm.said, "a job without a lease is wrong");
	return report("the extern step marks the lease");
}

/* run_option is what srun and sbatch do with the option. */
static bool run_option(void)
{
	static const spank_context_t contexts[] = {S_CTX_LOCAL, S_CTX_ALLOCATOR};

	for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++) {
		slurm = (struct slurm){.context = contexts[i]};
		check(slurm_spank_init(NULL, 0, NULL) == 0 && slurm.option.name && !strcmp(slurm.option.name, "gresnet"),
		      "--gresnet is not there");
		check(slurm.option.cb(0, "none", 0) == 0 && !*slurm.said, "none is refused");
		check(slurm.option.cb(0, "nine", 0) == -1 && strstr(slurm.said, "hint: the only value is none"), "nine is taken");
	}
	slurm = (struct slurm){.context = S_CTX_SLURMD};
	check(slurm_spank_init(NULL, 0, NULL) == 0 && !slurm.option.name, "slurmd has an option");
	return report("--gresnet where users give it");
}

/* run_loaded loads the built plugin as Slurm does (src/common/plugin.c). */
static bool run_loaded(const char *path)
{
	void *plugin = dlopen(path, RTLD_LAZY);
	const char *type = plugin ? dlsym(plugin, "plugin_type") : NULL;
	const unsigned int *version = plugin ? dlsym(plugin, "plugin_version") : NULL;

	if (!plugin)
		fail("%s", dlerror());
	check(type && !strcmp(type, "spank"), "plugin_type is not spank");
	check(version && *version == SLURM_VERSION_NUMBER, "plugin_version is not this Slurm's");
	check(plugin && dlsym(plugin, "slurm_spank_task_init_privileged"), "the callback is not there");
	if (plugin)
		dlclose(plugin);
	return report("the built plugin loads");
}

/* run_module loads the built PAM module as libpam does (libpam/pam_handlers.c). */
static bool run_module(const char *path)
{
	void *module = dlopen(path, RTLD_NOW);

	if (!module)
		fail("%s", dlerror());
	check(module && dlsym(module, "pam_sm_open_session") && dlsym(module, "pam_sm_close_session"), "the functions are not there");
	if (module)
		dlclose(module);
	return report("the built PAM module loads");
}

int main(int argc, char *argv[])
{
	const char *ci = getenv("CI");
	int passed = 0;
	int all = 0;

	must(argc == 3, "usage: harness PLUGIN MODULE");
	if (geteuid() != 0) {
		puts("the SPANK plugin's tests need root: they make namespaces and mounts; nothing was tested");
		return ci && !strcmp(ci, "true");
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	wrong = mmap(NULL, WRONG_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(wrong != MAP_FAILED, "mmap");
	sandbox_enter();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++, all++)
		passed += run_row(&rows[i]);
	for (size_t i = 0; i < sizeof(inits) / sizeof(inits[0]); i++, all++)
		passed += run_init(&inits[i]);
	passed += guard_tests(&all);
	passed += inject_tests(&all);
	passed += limit_tests(&all);
	passed += relay_tests(&all);
	passed += session_tests(&all);
	passed += view_tests(&all);
	passed += run_mark();
	passed += run_option();
	passed += run_loaded(argv[1]);
	passed += run_module(argv[2]);
	all += 4;
	printf("%d passed, %d failed\n", passed, all - passed);
	return passed != all;
}
