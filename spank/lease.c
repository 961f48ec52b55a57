/* A lease: the directory that gresnet-prolog made for a job. Its last file is
 * env, whose presence means that all the rest is there. This page opens and
 * verifies it and changes nothing; see enter.c for what is done with it. */
#include "lease.h"
#include "hidden.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT "GRESNET_LEASE="
#define VERSION "1"

/* open_trusted_dir closes parent, if it is one, whatever comes of it. */
static int open_trusted_dir(uint32_t job, int parent, const char *name)
{
	int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int reason = errno;

	if (fd == -1 && errno != ENOENT)
		slurm_error("gresnet: job %u: open lease directory %s: %m", job, name);
	if (fd != -1 && text_trusts(job, fd, name)) {
		close(fd);
		fd = -1;
		reason = EPERM;
	}
	if (parent != AT_FDCWD)
		close(parent);
	errno = reason;
	return fd;
}

int lease_folder(const char *state, uint32_t job, const char *name)
{
	int fd = open_trusted_dir(job, AT_FDCWD, state);

	return fd == -1 ? -1 : open_trusted_dir(job, fd, name);
}

int lease_dir(const char *state, uint32_t job)
{
	char name[sizeof("4294967295")];
	int fd = lease_folder(state, job, "jobs");

	if (fd == -1)
		return -1;
	snprintf(name, sizeof(name), "%u", job);
	return open_trusted_dir(job, fd, name);
}

int lease_mark(const char *state, uint32_t job)
{
	int rc = -1;
	int mark = -1;
	int dir = lease_dir(state, job);

	if (dir < 0)
		return errno == ENOENT ? 0 : -1;
	mark = openat(dir, "extern", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (mark < 0) {
		slurm_error("gresnet: job %u: mark the lease: %s", job, strerror(errno));
		goto out;
	}
	rc = 0;
out:
	if (mark >= 0)
		close(mark);
	close(dir);
	return rc;
}

bool lease_marked(const char *state, uint32_t job)
{
	bool marked;
	int dir = lease_dir(state, job);

	if (dir == -1)
		return false;
	marked = faccessat(dir, "extern", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	close(dir);
	return marked;
}

void lease_notice(const char *state, uint32_t job, char *text, size_t size)
{
	char name[sizeof("4294967295")];
	int dir = lease_folder(state, job, "notices");

	if (dir != -1) {
		snprintf(name, sizeof(name), "%u", job);
		if (text_read(job, dir, name, text, size) == 0) {
			close(dir);
			return;
		}
		close(dir);
	}
	*text = '\0';
}

/* read_env fills the lease's text. */
static int read_env(struct lease *lease)
{
	if (text_read(lease->job, lease->dir, "env", lease->text, sizeof(lease->text)) == 0)
		return 0;
	if (errno == ENOENT)
		slurm_error("gresnet: job %u: the lease is not complete: it has no env; "
			    "hint: see what gresnet-prolog said in slurmd's log [GN031]", lease->job);
	return -1;
}

/* check_version comes before everything that a later format may do otherwise. */
static int check_version(const struct lease *lease)
{
	const char *text = lease->text;
	size_t format = strlen(FORMAT);
	size_t all = strlen(FORMAT VERSION "\n");

	if (strncmp(text, FORMAT, format)) {
		slurm_error("gresnet: job %u: env does not begin with " FORMAT, lease->job);
		return -1;
	}
	if (strncmp(text, FORMAT VERSION "\n", all)) {
		slurm_error("gresnet: job %u: foreign version: the lease has format %.*s, this plugin reads " VERSION
			    "; hint: install plugin and prolog of one release [GN032]",
			    lease->job, (int)strcspn(text + format, "\n"), text + format);
		return -1;
	}
	return 0;
}

/* cut_lines makes variables of the text, in place. */
static int cut_lines(struct lease *lease)
{
	char *next;

	for (char *line = lease->text; *line; line = next) {
		char *end = strchr(line, '\n');
		char *equals;

		*end = '\0';
		next = end + 1;
		if (lease->lines == ENV_LINES_MAX) {
			slurm_error("gresnet: job %u: env has more than %d lines", lease->job, ENV_LINES_MAX);
			return -1;
		}
		equals = strchr(line, '=');
		if (!equals || equals == line || equals - line > ENV_NAME_MAX || end - equals - 1 > ENV_VALUE_MAX) {
			slurm_error("gresnet: job %u: line %zu of env is not NAME=VALUE, or too long",
				    lease->job, lease->lines + 1);
			return -1;
		}
		*equals = '\0';
		lease->line[lease->lines++] = (struct variable){.name = line, .value = equals + 1};
	}
	return 0;
}

/* head is the value of one of the first lines, or NULL with the reason logged. */
static const char *head(const struct lease *lease, size_t at, const char *name)
{
	if (at >= lease->lines || strcmp(lease->line[at].name, name)) {
		slurm_error("gresnet: job %u: line %zu of env is not %s", lease->job, at + 1, name);
		return NULL;
	}
	return lease->line[at].value;
}

static int check_number(const struct lease *lease, size_t at, const char *name, uint32_t want)
{
	char text[sizeof("4294967295")];
	const char *value = head(lease, at, name);

	if (!value)
		return -1;
	snprintf(text, sizeof(text), "%u", want);
	if (strcmp(value, text)) {
		slurm_error("gresnet: job %u: the lease is not this job's: %s is %s, not %s",
			    lease->job, name, value, text);
		return -1;
	}
	return 0;
}

/* check_run tells a lease that an earlier run of a requeued job left. The line
 * is the restart count, then a slash and the SLUID where Slurm has one.
 *
 * A count of 0 decides nothing: Slurm up to 26.05 reports it for every step, since
 * nothing sets stepd_step_rec_t.restart_cnt (slurmstepd_job.c sets the one in
 * envtp). So this is for a Slurm that comes; today it is the prolog that ends an
 * earlier run's lease, before any step. */
static int check_run(const struct lease *lease, uint32_t restarts)
{
	char text[sizeof("4294967295")];
	const char *value = head(lease, LINE_RUN, "GRESNET_RUN");
	size_t length;

	if (!value)
		return -1;
	length = strspn(value, "0123456789");
	if (length == 0 || (value[length] != '\0' && value[length] != '/')) {
		slurm_error("gresnet: job %u: GRESNET_RUN is not a restart count: %s", lease->job, value);
		return -1;
	}
	snprintf(text, sizeof(text), "%u", restarts);
	if (restarts != 0 && (strlen(text) != length || strncmp(value, text, length))) {
		slurm_error("gresnet: job %u: lease of another run: this is run %s, the lease is run %s's; "
			    "hint: see whether gresnet-prolog ran (PrologFlags=Contain) [GN033]", lease->job, text, value);
		return -1;
	}
	return 0;
}

/* ours tells a name of the prolog's own. */
static bool ours(const char *name)
{
	const char *rest = name + strlen("GRESNET_");

	return !strncmp(name, "GRESNET_", strlen("GRESNET_")) && *rest &&
	       !rest[strspn(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")];
}

/* may_export keeps a lease from ever setting LD_PRELOAD, PATH, or a variable by
 * which NCCL or UCX load code: these names, and no others, can be exported by
 * gresnet.toml (config.Variables). */
static bool may_export(const char *name)
{
	static const char *const others[] = {
		"NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES",
		"UCX_IB_GID_INDEX", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "MELLANOX_VISIBLE_DEVICES",
		"NCCL_IB_PKEY", "UCX_IB_PKEY", "OMPI_MCA_btl_openib_pkey",
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strcmp(name, others[i]))
			return true;
	return ours(name);
}

static int check_exports(const struct lease *lease)
{
	for (size_t i = HEAD_LINES; i < lease->lines; i++) {
		const char *name = lease->line[i].name;

		if (!may_export(name) || !strcmp(name, "GRESNET_REFUSED") || !strcmp(name, "GRESNET_VARIABLES")) {
			slurm_error("gresnet: job %u: line %zu of env: %s is not allowed there", lease->job, i + 1, name);
			return -1;
		}
		for (size_t j = 0; j < i; j++) {
			if (!strcmp(name, lease->line[j].name)) {
				slurm_error("gresnet: job %u: line %zu of env: %s is there twice", lease->job, i + 1, name);
				return -1;
			}
		}
	}
	return 0;
}

static int check_env(struct lease *lease, const struct step *step)
{
	if (check_version(lease) || cut_lines(lease) ||
	    check_number(lease, LINE_JOB, "GRESNET_JOB", step->job) ||
	    check_run(lease, step->restarts) ||
	    check_number(lease, LINE_UID, "GRESNET_UID", step->uid))
		return -1;
	if (lease->lines > LINE_NETNS && !strcmp(lease->line[LINE_NETNS].name, "GRESNET_REFUSED")) {
		if (step->speaks)
			slurm_error("gresnet: job %u: refused: %s", lease->job, lease->line[LINE_NETNS].value);
		return -1;
	}
	if (!head(lease, LINE_NETNS, "GRESNET_NETNS"))
		return -1;
	return check_exports(lease);
}

/* in_nodes tells a lease of isolation = "devices", whose job is in the node's network. */
static bool in_nodes(const struct lease *lease)
{
	return !strcmp(lease->line[LINE_NETNS].value, "node");
}

bool lease_has_network(const struct lease *lease)
{
	return lease->netns != -1;
}

bool lease_has_srun(const struct lease *lease)
{
	for (size_t i = HEAD_LINES; i < lease->lines; i++) {
		if (!strcmp(lease->line[i].name, "GRESNET_SRUN"))
			return !strcmp(lease->line[i].value, "yes");
	}
	return false;
}

/* check_none: env has been tampered with if a job of the node's network has a namespace. */
static int check_none(const struct lease *lease)
{
	if (faccessat(lease->dir, "netns", F_OK, AT_SYMLINK_NOFOLLOW) == -1 && errno == ENOENT)
		return 0;
	slurm_error("gresnet: job %u: env says that the job has no network namespace, and netns is there", lease->job);
	return -1;
}

/* open_netns opens the job's namespace, if it has one. A bind mount that is gone leaves
 * an ordinary file behind, and one made again is another namespace. */
static int open_netns(struct lease *lease)
{
	const char *want = lease->line[LINE_NETNS].value;
	char text[sizeof("18446744073709551615:18446744073709551615")];
	struct stat st, own;

	if (in_nodes(lease))
		return check_none(lease);
	lease->netns = openat(lease->dir, "netns", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (lease->netns == -1) {
		slurm_error("gresnet: job %u: open netns: %m", lease->job);
		return -1;
	}
	/* Any file but a namespace's says ENOTTY: ioctl_ns(2). */
	if (ioctl(lease->netns, NS_GET_NSTYPE) != CLONE_NEWNET) {
		slurm_error("gresnet: job %u: netns is not a network namespace; hint: see whether somebody unmounted it [GN034]", lease->job);
		return -1;
	}
	if (fstat(lease->netns, &st) == -1 || stat("/proc/self/ns/net", &own) == -1) {
		slurm_error("gresnet: job %u: stat netns: %m", lease->job);
		return -1;
	}
	snprintf(text, sizeof(text), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	if (strcmp(text, want)) {
		slurm_error("gresnet: job %u: netns is namespace %s, env says %s", lease->job, text, want);
		return -1;
	}
	if (st.st_dev == own.st_dev && st.st_ino == own.st_ino) {
		slurm_error("gresnet: job %u: netns is the node's own network namespace", lease->job);
		return -1;
	}
	return 0;
}

/* check_user_namespace: in a user namespace nobody may enter the job's network
 * namespace or mount its /sys, and even who owns a file does not show. */
static int check_user_namespace(uint32_t job)
{
	char map[64] = "";
	unsigned inside, outside, length;
	int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);

	if (fd == -1 || text_read_all(fd, map, sizeof(map) - 1) == -1) {
		slurm_error("gresnet: job %u: read /proc/self/uid_map: %m", job);
		if (fd != -1)
			close(fd);
		return -1;
	}
	close(fd);
	if (sscanf(map, "%u %u %u", &inside, &outside, &length) == 3 && inside == 0 && outside == 0 && length == UINT32_MAX)
		return 0;
	slurm_error("gresnet: job %u: the task is in a user namespace, from which no other can be entered; "
		    "hint: take CLONE_NEWUSER out of namespace.yaml [GN035]", job);
	return -1;
}

enum holding lease_open(struct lease *lease, const char *state, const struct step *step)
{
	lease->job = step->job;
	lease->netns = -1;
	lease->lines = 0;
	if (check_user_namespace(step->job))
		return LEASE_BROKEN;
	lease->dir = lease_dir(state, step->job);
	if (lease->dir == -1)
		return errno == ENOENT && !hidden_here(state, step->job) ? LEASE_NONE : LEASE_BROKEN;
	if (read_env(lease) || check_env(lease, step) || open_netns(lease)) {
		lease_close(lease);
		return LEASE_BROKEN;
	}
	return LEASE_HELD;
}

void lease_close(struct lease *lease)
{
	if (lease->netns != -1)
		close(lease->netns);
	close(lease->dir);
	lease->netns = lease->dir = -1;
}
