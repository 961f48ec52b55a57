/* The guard: what a task's process writes into the map of the kernel's, which
 * here is one without a program. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <slurm/slurm.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "case.h"
#include "sandbox.h"
#include "slurm.h"

#define BPF "/sys/fs/bpf"
#define PINS BPF "/gresnet"
#define DEVICES PINS "/devices"
#define SHARERS PINS "/sharers"
#define TREE "/sys/fs/cgroup"
#define JOB "/slurm/job_4711"
#define OWN "0::" JOB "/step_0/user/task_0\n"

/* A device and an entry, as lib/kernel/bpf has them. */
struct key {
	uint32_t major, minor;
};
struct value {
	uint64_t cgroup;
	uint32_t job, required;
};

/* A cgroup that may open a shared device, and the value for it in their map. */
struct sharer {
	struct key device;
	uint64_t cgroup;
};
struct holder {
	uint32_t job, required;
};

/* What is in the map afterwards. */
enum { NOBODY, THE_JOB, ANYBODY };

#define SEVERAL (UINT64_MAX - 1)

struct row {
	const char *name;
	struct value before;
	int after;
	const char *says; /* the task fails of it, unless it is a warning; NULL: nothing */
	const char *cgroup;
	void (*spoil)(void);
	uint32_t sharer; /* the job that has the device, where others may, too; 0: there is no map of these */
	uint32_t required;
};

static const struct key null = {1, 3}; /* all nodes of the sandbox's leases */
static const struct key other = {231, 192};
static int map, sharers = -1;

static int bpf(enum bpf_cmd command, union bpf_attr attr)
{
	return (int)syscall(SYS_bpf, command, &attr, sizeof(attr));
}

static union bpf_attr element(const struct key *key, struct value *value)
{
	return (union bpf_attr){.map_fd = (uint32_t)map, .key = (uintptr_t)key, .value = (uintptr_t)value};
}

static void no_entry(void) { must(!bpf(BPF_MAP_DELETE_ELEM, element(&null, NULL)), "delete"); }
static void no_job(void) { must(!rmdir(TREE JOB), JOB); }
static void no_map(void) { must(!unlink(DEVICES), DEVICES); }
static void no_dev(void)
{
	must(!umount(LEASE "/dev") && !rmdir(LEASE "/dev"), "dev");
}
static void not_a_map(void) { no_map(); must(!mkdir(DEVICES, 0700), DEVICES); }
static void no_directory(void)
{
	no_map();
	must(!rmdir(PINS) && !symlink("/proc/self/cgroup", PINS), PINS);
}
static void frozen_map(void) { must(!bpf(BPF_MAP_FREEZE, (union bpf_attr){.map_fd = (uint32_t)map}), "freeze"); }

static void frozen_sharers(void) { must(!bpf(BPF_MAP_FREEZE, (union bpf_attr){.map_fd = (uint32_t)sharers}), "freeze"); }

static void no_read(void) { must(!mount("/proc/self/mem", "/proc/self/cgroup", NULL, MS_BIND, NULL), "mem"); }

static const struct row rows[] = {
	{"guarded: the job's cgroup may open it", {0, 4711, 1}, THE_JOB, NULL, OWN},
	{"guarded, where it need not be", {0, 4711, 0}, THE_JOB, NULL, OWN},
	{"allowed by an earlier task", {1, 4711, 1}, THE_JOB, NULL, OWN},
	{"guarded, slurmstepd's own cgroup", {0, 4711, 1}, THE_JOB, NULL, "0::" JOB "/step_0/slurm\n"},
	{"guarded, Slurm in a step of another", {0, 4711, 1}, THE_JOB, NULL, "0::" JOB "/step_0\n"},
	{"guarded, another step's cgroup", {0, 4711, 1}, NOBODY, "cannot be this job's alone", "0::" JOB "/step_1\n"},
	{"guarded, a name that begins like the step's", {0, 4711, 1}, NOBODY, "cannot be this job's alone", "0::" JOB "/step_00\n"},
	{"guarded, a component of a heterogeneous step", {0, 4711, 1}, THE_JOB, NULL, "0::" JOB "/step_0+1/user/task_0\n"},
	{"guarded, the same where it need not be", {0, 4711, 0}, THE_JOB, NULL, "0::" JOB "/step_0+12\n"},
	{"guarded, a component of another step", {0, 4711, 1}, NOBODY, "cannot be this job's alone", "0::" JOB "/step_1+0\n"},
	{"guarded, a component without a number", {0, 4711, 1}, NOBODY, "cannot be this job's alone", "0::" JOB "/step_0+\n"},
	{"guarded, a component and more", {0, 4711, 1}, NOBODY, "cannot be this job's alone", "0::" JOB "/step_0+1x\n"},
	{"guarded, no cgroup of the job's", {0, 4711, 1}, NOBODY, "hint: set ProctrackType=proctrack/cgroup", "0::/system.slice/slurmd.service\n"},
	{"no cgroup of the job's, where it need not be", {0, 4711, 0}, ANYBODY, "warning: other jobs of the same user", "0::/system.slice\n"},
	{"cgroup v1, where it need not be", {0, 4711, 0}, ANYBODY, "warning: other jobs of the same user", "4:memory:" JOB "/step_0\n"},
	{"cgroup v1", {0, 4711, 1}, NOBODY, "hint: set ProctrackType=proctrack/cgroup", "4:memory:" JOB "/step_0\n"},
	{"a cgroup that cannot be read", {0, 4711, 0}, NOBODY, "read /proc/self/cgroup: Input/output error", OWN, .spoil = no_read},
	{"guarded for another job", {0, 4712, 0}, NOBODY, "device 1:3 is guarded for job 4712", OWN},
	{"not guarded", {0, 4711, 1}, -1, NULL, OWN, .spoil = no_entry},
	{"no guard", {0, 4711, 1}, NOBODY, NULL, OWN, .spoil = no_map},
	{"a directory for a map", {0, 4711, 1}, NOBODY, "open " DEVICES ":", OWN, .spoil = not_a_map},
	{"a file for the map's directory", {0, 4711, 1}, NOBODY, "open " DEVICES ": Not a directory", OWN, .spoil = no_directory},
	{"a cgroup that is gone", {0, 4711, 1}, NOBODY, "stat " TREE JOB ": No such file", OWN, .spoil = no_job},
	{"a lease without dev", {0, 4711, 1}, NOBODY, "open dev: No such file", OWN, .spoil = no_dev},
	{"a map that cannot be written", {0, 4711, 1}, NOBODY, "allow device 1:3: ", OWN, .spoil = frozen_map},
	{"shared: the job's cgroup may open it, too", {SEVERAL, 0, 0}, THE_JOB, NULL, OWN, .sharer = 4711, .required = 1},
	{"shared by others", {SEVERAL, 0, 0}, NOBODY, "device 1:3 is shared by other jobs", OWN, .sharer = 4712},
	{"shared, and no map of sharers", {SEVERAL, 0, 0}, NOBODY, "device 1:3 is shared, and " SHARERS " is not there", OWN},
	{"shared, no cgroup of the job's", {SEVERAL, 0, 0}, NOBODY, "cannot be this job's alone", "0::/system.slice\n", .sharer = 4711, .required = 1},
	{"shared, the same where it need not be", {SEVERAL, 0, 0}, ANYBODY, "warning: other jobs of the same user", "0::/system.slice\n", .sharer = 4711},
	{"shared, a map that cannot be written", {SEVERAL, 0, 0}, NOBODY, "allow device 1:3: ", OWN, .sharer = 4711, .spoil = frozen_sharers},
};

static int find_sharer(uint64_t cgroup, uint32_t job)
{
	struct sharer key = {null, cgroup};
	struct holder holder = {0};
	union bpf_attr attr = {.map_fd = (uint32_t)sharers, .key = (uintptr_t)&key, .value = (uintptr_t)&holder};

	return !bpf(BPF_MAP_LOOKUP_ELEM, attr) && holder.job == job;
}

static void make_sharers(const struct row *row)
{
	struct sharer key = {null, UINT64_C(1) << 63 | row->sharer};
	struct holder holder = {row->sharer, row->required};
	union bpf_attr attr;

	sharers = bpf(BPF_MAP_CREATE, (union bpf_attr){.map_type = BPF_MAP_TYPE_HASH, .key_size = 16, .value_size = 8, .max_entries = 8});
	must(sharers != -1, "create a map of sharers");
	must(!bpf(BPF_OBJ_PIN, (union bpf_attr){.pathname = (uintptr_t)SHARERS, .bpf_fd = (uint32_t)sharers}), SHARERS);
	attr = (union bpf_attr){.map_fd = (uint32_t)sharers, .key = (uintptr_t)&key, .value = (uintptr_t)&holder};
	must(!bpf(BPF_MAP_UPDATE_ELEM, attr), "fill the map of sharers");
}

/* make_guard is what the prolog does. */
static void make_guard(const struct row *row)
{
	struct value value = row->before;
	struct value others = {7, 4712, 1};

	must(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL), "unshare");
	must(!mount("bpf", BPF, "bpf", 0, "mode=700") && !mkdir(PINS, 0700), BPF);
	map = bpf(BPF_MAP_CREATE, (union bpf_attr){.map_type = BPF_MAP_TYPE_HASH, .key_size = 8, .value_size = 16, .max_entries = 8});
	must(map != -1, "create a map");
	must(!bpf(BPF_OBJ_PIN, (union bpf_attr){.pathname = (uintptr_t)DEVICES, .bpf_fd = (uint32_t)map}), DEVICES);
	must(!bpf(BPF_MAP_UPDATE_ELEM, element(&null, &value)) && !bpf(BPF_MAP_UPDATE_ELEM, element(&other, &others)), "fill the map");
	if (row->sharer)
		make_sharers(row);
	must(!mount("sandbox", TREE, "tmpfs", 0, "mode=0755"), TREE);
	must(!mkdir(TREE "/slurm", 0755) && !mkdir(TREE JOB, 0755), TREE JOB);
	write_bytes("/run/cgroup", row->cgroup, strlen(row->cgroup));
	must(!mount("/run/cgroup", "/proc/self/cgroup", NULL, MS_BIND, NULL), "/proc/self/cgroup");
	must(!unlink(LEASE "/dev/rdma_cm"), "rdma_cm"); /* the sandbox's is the same device */
}

static int holder(uint64_t cgroup, uint64_t job)
{
	return cgroup == 0 ? NOBODY : cgroup == UINT64_MAX ? ANYBODY : cgroup == job ? THE_JOB : -2;
}

static void run_guard(const void *argument)
{
	const struct row *row = argument;
	char *argv[] = {NULL};
	struct value have = {0}, others = {0};
	struct stat st;
	int want = row->says && !strstr(row->says, "warning") ? -1 : 0; /* of the task */
	int found;

	make_guard(row);
	must(!stat(TREE JOB, &st), TREE JOB);
	if (row->spoil)
		row->spoil();
	slurm = (struct slurm){.context = S_CTX_REMOTE, .job = 4711, .step = 0, .restarts = 2, .uid = 1000};
	must(!slurm_spank_init(NULL, 0, argv), "init");
	check(!slurm_spank_task_init_privileged(NULL, 0, argv), "the callback fails");
	check(start_program(argv) == want, "the task goes on, or ends, and should not");
	check_said(row->says);
	found = bpf(BPF_MAP_LOOKUP_ELEM, element(&null, &have)) ? -1 : holder(have.cgroup, st.st_ino);
	if (row->before.cgroup == SEVERAL) {
		check(have.cgroup == SEVERAL, "the device is shared no more");
		found = find_sharer(st.st_ino, 4711) ? THE_JOB : find_sharer(UINT64_MAX, 4711) ? ANYBODY : NOBODY;
	}
	if (found != row->after)
		fail("the device is %d's, not %d's", found, row->after);
	check(found == -1 || (have.job == row->before.job && have.required == row->before.required), "the rest of the entry has changed");
	check(!bpf(BPF_MAP_LOOKUP_ELEM, element(&other, &others)) && others.cgroup == 7, "another job's device has changed");
}

int guard_tests(int *all)
{
	int passed = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++, (*all)++) {
		lease_make();
		in_child(run_guard, &rows[i]);
		lease_drop();
		passed += report(rows[i].name);
	}
	return passed;
}
