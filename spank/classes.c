/* What /sys/class lists of RDMA. In shared mode the kernel lists all HCAs of the node to every
 * network namespace, and in both modes it lists the device nodes of all: only the class infiniband
 * knows namespaces. So a task has lists of its own, of links to what is its job's.
 *
 * They are lists and keep nobody away from a device: that is for /dev/infiniband and the guard to
 * do. Below /sys/devices, and over netlink, all HCAs can be seen still. */
#include "classes.h"
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLASS "/sys/class/infiniband"
#define VERBS "/sys/class/infiniband_verbs"
#define DEVICES "/dev/infiniband"

enum {
	HCA_NAME_SIZE = 64, /* IB_DEVICE_NAME_MAX */
	HCAS_MAX = 256,
	ATTRIBUTE_SIZE = 64,
	FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC,
};

/* The job's HCAs, as their RDMA devices are called now. */
struct hcas {
	char name[HCAS_MAX][HCA_NAME_SIZE];
	size_t count;
};

static bool has(const struct hcas *hcas, const char *name)
{
	for (size_t i = 0; i < hcas->count; i++)
		if (!strcmp(hcas->name[i], name))
			return true;
	return false;
}

/* read_attribute reads a file of a class, or of what it lists. It returns the length, 0 where
 * there is no such file, and -1 with the reason logged. */
static ssize_t read_attribute(uint32_t job, int class, const char *name, char text[ATTRIBUTE_SIZE])
{
	ssize_t n = -1;
	int fd = openat(class, name, O_RDONLY | O_CLOEXEC);

	/* ENODEV: the HCA is just going. */
	if (fd == -1 && (errno == ENOENT || errno == ENOTDIR || errno == ENODEV))
		return 0;
	if (fd == -1) {
		slurm_error("gresnet: job %u: open %s of /sys/class: %m", job, name);
		return -1;
	}
	n = text_read_all(fd, text, ATTRIBUTE_SIZE);
	if (n == -1 && errno == ENODEV)
		n = 0;
	else if (n == -1)
		slurm_error("gresnet: job %u: read %s of /sys/class: %m", job, name);
	else if (n == ATTRIBUTE_SIZE) {
		slurm_error("gresnet: job %u: read %s of /sys/class: too long", job, name);
		n = -1;
	}
	close(fd);
	return n;
}

/* read_owner reads to which HCA a device node belongs: 1, or 0 where that is nothing's. */
static int read_owner(uint32_t job, int class, const char *node, char owner[ATTRIBUTE_SIZE])
{
	char name[NAME_MAX + sizeof("/ibdev")];
	ssize_t n;

	snprintf(name, sizeof(name), "%s/ibdev", node);
	n = read_attribute(job, class, name, owner);
	if (n < 1)
		return (int)n;
	owner[n] = '\0';
	owner[strcspn(owner, "\n")] = '\0';
	return 1;
}

/* next_entry returns the next name in a folder, or NULL: at the end, with errno 0. */
static const char *next_entry(DIR *dir)
{
	const struct dirent *entry;

	do {
		errno = 0;
		entry = readdir(dir);
	} while (entry && entry->d_name[0] == '.');
	return entry ? entry->d_name : NULL;
}

/* find_hcas finds the job's HCAs by the device nodes that it has: names can change. */
static int find_hcas(uint32_t job, int verbs, struct hcas *hcas)
{
	char owner[ATTRIBUTE_SIZE];
	const char *node;
	int rc = -1;
	DIR *dev = opendir(DEVICES);

	if (!dev) {
		slurm_error("gresnet: job %u: list " DEVICES ": %m", job);
		return -1;
	}
	while ((node = next_entry(dev))) {
		int known = read_owner(job, verbs, node, owner);

		if (known == -1)
			goto out;
		if (!known || has(hcas, owner))
			continue;
		if (hcas->count == HCAS_MAX) {
			slurm_error("gresnet: job %u: it has more than %d HCAs", job, HCAS_MAX);
			goto out;
		}
		snprintf(hcas->name[hcas->count++], HCA_NAME_SIZE, "%.*s", HCA_NAME_SIZE - 1, owner);
	}
	if (errno) {
		slurm_error("gresnet: job %u: read " DEVICES ": %m", job);
		goto out;
	}
	rc = 0;
out:
	closedir(dev);
	return rc;
}

/* copy_attribute copies a file of the class itself: abi_version. */
static int copy_attribute(uint32_t job, int class, const char *name, int to)
{
	char text[ATTRIBUTE_SIZE];
	int fd = -1;
	int rc = -1;
	ssize_t n = read_attribute(job, class, name, text);

	if (n < 1)
		return (int)n;
	fd = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd == -1 || write(fd, text, (size_t)n) != n || fchmod(fd, 0444) == -1) {
		slurm_error("gresnet: job %u: write %s of the job's /sys/class: %m", job, name);
		goto out;
	}
	rc = 0;
out:
	if (fd != -1)
		close(fd);
	return rc;
}

/* copy_entry copies the link to an HCA, or to a device node, if it is the job's. */
static int copy_entry(uint32_t job, const struct hcas *hcas, int class, const char *name, int to)
{
	char target[PATH_MAX], owner[ATTRIBUTE_SIZE];
	ssize_t n = readlinkat(class, name, target, sizeof(target));

	if (n == -1 && errno == EINVAL)
		return copy_attribute(job, class, name, to);
	if (n == -1 && errno == ENOENT)
		return 0;
	if (n == -1 || n == sizeof(target)) {
		slurm_error("gresnet: job %u: read link %s of /sys/class: %s", job, name, n == -1 ? strerror(errno) : "too long");
		return -1;
	}
	target[n] = '\0';
	if (!has(hcas, name)) {
		int known = read_owner(job, class, name, owner);

		if (known == -1)
			return -1;
		if (!known || !has(hcas, owner))
			return 0;
	}
	if (symlinkat(target, to, name) == -1) {
		slurm_error("gresnet: job %u: make link %s of the job's /sys/class: %m", job, name);
		return -1;
	}
	return 0;
}

/* copy_entries puts into a folder what the job may see of a class. */
static int copy_entries(uint32_t job, const struct hcas *hcas, DIR *class, const char *path)
{
	const char *name;
	int rc = -1;
	int to = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (to == -1) {
		slurm_error("gresnet: job %u: open the job's %s: %m", job, path);
		return -1;
	}
	while ((name = next_entry(class)))
		if (copy_entry(job, hcas, dirfd(class), name, to))
			goto out;
	if (errno) {
		slurm_error("gresnet: job %u: read %s: %m", job, path);
		goto out;
	}
	rc = 0;
out:
	close(to);
	return rc;
}

/* mount_empty puts an empty folder over a class. */
static int mount_empty(uint32_t job, const char *path)
{
	if (mount("gresnet", path, "tmpfs", FLAGS, "mode=0755") == -1) {
		slurm_error("gresnet: job %u: cover %s: %m", job, path);
		return -1;
	}
	return 0;
}

/* keep_whole mounts a /sys without covers below the cover of a class, where nobody reaches it. The kernel lets a
 * user mount a sysfs in namespaces of his own only if the mount namespace has a whole one
 * (fs/namespace.c:mount_too_revealing). */
static int keep_whole(uint32_t job, const char *path)
{
	char to[PATH_MAX];

	snprintf(to, sizeof(to), "%s/sys", path);
	if (mount_empty(job, path))
		return -1;
	if (mkdir(to, 0755) == -1 || mount("/sys", to, NULL, MS_BIND, NULL) == -1) {
		slurm_error("gresnet: job %u: keep a whole /sys below %s: %m", job, path);
		return -1;
	}
	return 0;
}

/* cover_class puts a folder with the job's part over a class. What was there stays open below it. */
static int cover_class(uint32_t job, const struct hcas *hcas, const char *path)
{
	int rc = -1;
	DIR *class = opendir(path);

	if (!class && errno == ENOENT)
		return 0;
	if (!class) {
		slurm_error("gresnet: job %u: list %s: %m", job, path);
		return -1;
	}
	if (!strcmp(path, CLASS) && keep_whole(job, path))
		goto out;
	if (mount_empty(job, path))
		goto out;
	if (copy_entries(job, hcas, class, path))
		goto out;
	if (mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | FLAGS, NULL) == -1) {
		slurm_error("gresnet: job %u: make the job's %s read-only: %m", job, path);
		goto out;
	}
	rc = 0;
out:
	closedir(class);
	return rc;
}

int classes_cover(uint32_t job)
{
	/* infiniband_cm is in kernels before 5.13. */
	static const char *const classes[] = {
		CLASS, "/sys/class/infiniband_mad", "/sys/class/infiniband_cm", VERBS,
	};
	struct hcas hcas = {.count = 0};
	int rc = -1;
	int verbs = open(VERBS, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (verbs == -1 && errno != ENOENT) {
		slurm_error("gresnet: job %u: open " VERBS ": %m", job);
		return -1;
	}
	if (verbs != -1 && find_hcas(job, verbs, &hcas))
		goto out;
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (cover_class(job, &hcas, classes[i]))
			goto out;
	rc = 0;
out:
	if (verbs != -1)
		close(verbs);
	return rc;
}
