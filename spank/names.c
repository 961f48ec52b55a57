/* The names of a job: the node's own may mean its loopback, which is not the job's, and
 * the node's resolver may be out of reach. */
#include "names.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <slurm/spank.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

static int cover_file(uint32_t job, int dir, const char *name, const char *at)
{
	char path[sizeof("/proc/self/fd/2147483647")];
	int rc = -1;
	int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd == -1 && errno == ENOENT)
		return 0;
	if (fd == -1) {
		slurm_error("gresnet: job %u: open %s: %m", job, name);
		return -1;
	}
	if (text_trusts(job, fd, name))
		goto out;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (mount(path, at, NULL, MS_BIND, NULL) == -1) {
		slurm_error("gresnet: job %u: mount the job's %s at %s: %m", job, name, at);
		goto out;
	}
	if (mount(NULL, at, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == -1) {
		slurm_error("gresnet: job %u: set mount flags of %s: %m", job, at);
		goto out;
	}
	rc = 0;
out:
	close(fd);
	return rc;
}

int names_cover(uint32_t job, int dir)
{
	if (cover_file(job, dir, "hosts", "/etc/hosts") || cover_file(job, dir, "resolv.conf", "/etc/resolv.conf"))
		return -1;
	return 0;
}
