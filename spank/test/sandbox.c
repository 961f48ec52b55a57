#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static int netns = -1; /* the job's */

void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "harness: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void mount_tmpfs(const char *at, unsigned long flags)
{
	must(!mount("sandbox", at, "tmpfs", flags, "mode=0755"), at);
}

static void make_dir(const char *path, mode_t mode)
{
	must(!mkdir(path, mode) && !chmod(path, mode), path);
}

/* Every device node is the null device: it opens. */
static void make_node(const char *path, mode_t mode)
{
	must(!mknod(path, S_IFCHR | mode, makedev(1, 3)) && !chmod(path, mode), path);
}

static void make_dev(void)
{
	mount_tmpfs("/dev", 0);
	make_node("/dev/null", 0666);
	make_dir("/dev/infiniband", 0755);
	make_node("/dev/infiniband/uverbs0", 0666);
	make_node("/dev/infiniband/uverbs1", 0666);
	make_node("/dev/infiniband/umad0", 0600);
	make_node("/dev/infiniband/rdma_cm", 0666);
}

static void make_link(const char *to, const char *path)
{
	must(!symlink(to, path), path);
}

/* make_hca gives the classes an HCA with its device nodes, as the kernel does it. */
static void make_hca(int n)
{
	static const char *const nodes[] = {"infiniband_verbs/uverbs", "infiniband_mad/umad", "infiniband_mad/issm"};
	char hca[64], path[128], to[128];

	snprintf(hca, sizeof(hca), "mlx5_%d", n);
	snprintf(path, sizeof(path), "/sys/class/devices/%s", hca);
	make_dir(path, 0755);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", hca);
	snprintf(to, sizeof(to), "../devices/%s", hca);
	make_link(to, path);
	snprintf(path, sizeof(path), "/sys/class/infiniband_cm/%s", hca);
	make_link(to, path);
	strcat(hca, "\n");
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		snprintf(path, sizeof(path), "/sys/class/devices%s%d", strchr(nodes[i], '/'), n);
		make_dir(path, 0755);
		strcat(path, "/ibdev");
		write_bytes(path, hca, strlen(hca));
		snprintf(path, sizeof(path), "/sys/class/%s%d", nodes[i], n);
		snprintf(to, sizeof(to), "../devices%s%d", strchr(nodes[i], '/'), n);
		make_link(to, path);
	}
}

/* make_classes has /sys/class list three HCAs, which this machine's kernel may not have. */
static void make_classes(void)
{
	mount_tmpfs("/sys/class", MS_NOSUID | MS_NODEV | MS_NOEXEC);
	make_link("../devices/virtual/net", "/sys/class/net");
	make_dir("/sys/class/devices", 0755);
	make_dir("/sys/class/infiniband", 0755);
	make_dir("/sys/class/infiniband_verbs", 0755);
	make_dir("/sys/class/infiniband_mad", 0755);
	make_dir("/sys/class/infiniband_cm", 0755);
	write_bytes("/sys/class/infiniband_verbs/abi_version", "6\n", 2);
	write_bytes("/sys/class/infiniband_mad/abi_version", "5\n", 2);
	make_hca(0);
	make_hca(1);
	make_hca(10);
}

/* On /sys: the node's cgroup tree, a tree of two mounts with flags of their
 * own, and one over a directory that only this network namespace has. */
static void make_sys(void)
{
	char cgroup[64];
	int fd = open("/sys/fs/cgroup", O_PATH | O_CLOEXEC);

	must(fd != -1, "/sys/fs/cgroup");
	must(!mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "/sys");
	snprintf(cgroup, sizeof(cgroup), "/proc/self/fd/%d", fd);
	must(!mount(cgroup, "/sys/fs/cgroup", NULL, MS_BIND | MS_REC, NULL), "/sys/fs/cgroup");
	close(fd);
	mount_tmpfs("/sys/firmware", MS_NOSUID);
	make_dir("/sys/firmware/efi", 0755);
	mount_tmpfs("/sys/firmware/efi", MS_NOEXEC | MS_RDONLY);
	mount_tmpfs("/sys/devices/virtual/net/host0", 0);
	make_classes();
}

static void make_interfaces(pid_t inside)
{
	char command[160];

	snprintf(command, sizeof(command), "ip link add host0 type veth peer name job0 netns %d", (int)inside);
	must(system(command) == 0, command);
	must(system("ip link set lo up") == 0, "lo");
	snprintf(command, sizeof(command), "nsenter -t %d -n ip link set lo up", (int)inside);
	must(system(command) == 0, command);
}

/* make_netns has a child make the namespace and waits until it is there. */
static void make_netns(void)
{
	char path[64];
	char byte;
	int ready[2];
	pid_t child;

	must(!pipe2(ready, O_CLOEXEC), "pipe");
	child = fork();
	must(child != -1, "fork");
	if (child == 0) {
		must(!unshare(CLONE_NEWNET), "make the job's network namespace");
		must(write(ready[1], "", 1) == 1, "pipe");
		for (;;)
			pause();
	}
	must(read(ready[0], &byte, 1) == 1, "pipe");
	make_interfaces(child);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)child);
	netns = open(path, O_RDONLY | O_CLOEXEC);
	must(netns != -1, path);
	must(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child, "end the namespace's first process");
	close(ready[0]);
	close(ready[1]);
}

void sandbox_enter(void)
{
	must(!unshare(CLONE_NEWNS | CLONE_NEWNET), "make a sandbox");
	must(!mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL), "make all mounts private");
	umount2("/run", MNT_DETACH); /* a lease's /run over this machine's would be one that a container made */
	make_netns();
	make_dev();
	make_sys();
	must(!mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL), "make all mounts shared");
}

void write_bytes(const char *path, const char *bytes, size_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	must(fd != -1 && write(fd, bytes, length) == (ssize_t)length, path);
	close(fd);
}

void write_env(const char *text)
{
	char all[65536];
	struct stat st;
	size_t length = strcspn(text, "@");

	must(!fstat(netns, &st), "stat the job's netns");
	if (text[length] == '@')
		snprintf(all, sizeof(all), "%.*s%ju:%ju%s", (int)length, text, (uintmax_t)st.st_dev,
			 (uintmax_t)st.st_ino, text + length + 1);
	else
		snprintf(all, sizeof(all), "%s", text);
	write_bytes(LEASE "/env", all, strlen(all));
}

void lease_bind(const char *path)
{
	must(!mount(path, LEASE "/netns", NULL, MS_BIND, NULL), path);
}

void lease_make(void)
{
	char path[64];

	mount_tmpfs("/run", MS_NOSUID | MS_NODEV);
	make_dir(STATE, 0755);
	make_dir(STATE "/jobs", 0700);
	make_dir(LEASE, 0700);
	write_bytes(LEASE "/netns", "", 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", netns);
	lease_bind(path);
	make_dir(LEASE "/dev", 0700);
	mount_tmpfs(LEASE "/dev", 0);
	make_node(LEASE "/dev/uverbs1", 0600);
	make_node(LEASE "/dev/rdma_cm", 0666);
	write_env(HEAD NETNS "GRESNET_HCAS=mlx5_1\n");
}

void lease_drop(void)
{
	must(!umount2("/run", MNT_DETACH), "/run");
}

int job_netns(void)
{
	struct stat job, own;

	must(!fstat(netns, &job) && !stat("/proc/self/ns/net", &own), "stat network namespaces");
	return job.st_dev == own.st_dev && job.st_ino == own.st_ino;
}
