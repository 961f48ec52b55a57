/* The files of a lease: root's, short, and text. A file that is anything else is
 * not one that gresnet-prolog wrote. */
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <slurm/spank.h>
#include <sys/stat.h>
#include <unistd.h>

int text_trusts(uint32_t job, int fd, const char *name)
{
	struct stat st;

	if (fstat(fd, &st) == -1) {
		slurm_error("gresnet: job %u: stat %s: %m", job, name);
		return -1;
	}
	if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH))) {
		slurm_error("gresnet: job %u: %s can be written by others than root (uid %u, mode %04o)",
			    job, name, st.st_uid, st.st_mode & 07777);
		return -1;
	}
	return 0;
}

ssize_t text_read_all(int fd, char *buffer, size_t size)
{
	size_t have = 0;

	while (have < size) {
		ssize_t n = read(fd, buffer + have, size - have);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return -1;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

/* check_text looks at what was read, of a file that may be longer. */
static int check_text(uint32_t job, const char *name, const char *text, size_t length, size_t size)
{
	if (length == 0 || length == size) {
		slurm_error("gresnet: job %u: %s has no content or more than %zu bytes", job, name, size - 1);
		return -1;
	}
	for (size_t i = 0; i < length; i++) {
		if (text[i] != '\n' && (text[i] < ' ' || text[i] > '~')) {
			slurm_error("gresnet: job %u: %s has an unprintable byte at %zu", job, name, i);
			return -1;
		}
	}
	if (text[length - 1] != '\n') {
		slurm_error("gresnet: job %u: %s is cut off: its last line has no end", job, name);
		return -1;
	}
	return 0;
}

static int read_text(uint32_t job, int fd, const char *name, char *text, size_t size)
{
	struct stat st;
	ssize_t n;

	if (text_trusts(job, fd, name))
		return -1;
	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
		slurm_error("gresnet: job %u: %s is not a regular file", job, name);
		return -1;
	}
	n = text_read_all(fd, text, size);
	if (n == -1) {
		slurm_error("gresnet: job %u: read %s: %m", job, name);
		return -1;
	}
	if (check_text(job, name, text, (size_t)n, size))
		return -1;
	text[n] = '\0';
	return 0;
}

int text_read(uint32_t job, int dir, const char *name, char *text, size_t size)
{
	/* Without O_NONBLOCK a fifo would hold the task for ever. */
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int rc;

	if (fd == -1) {
		int reason = errno;

		if (reason != ENOENT)
			slurm_error("gresnet: job %u: open %s: %m", job, name);
		errno = reason;
		return -1;
	}
	rc = read_text(job, fd, name, text, size);
	close(fd);
	errno = EINVAL;
	return rc;
}
