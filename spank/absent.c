/* A job that has no lease, when its step begins. A record of its prolog says why (record.c). Without
 * one the prolog did not run, or was killed; then slurmctld says whether the job asked for HCAs. Slurm tells a plugin nothing of GRES otherwise:
 * SLURM_STEP_NICS is set for GRES that are device files alone, and SPANK has no item for it. */
#include "absent.h"
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Where gresnet setup keeps what it changed (lib/admin/setup). */
#ifndef SETUP
#define SETUP "/var/lib/gresnet/setup"
#endif

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
#define JOB_OF(info) ((info)->step_id.job_id)
#define ID_OF(job) ((slurm_step_id_t){.job_id = (job), .step_het_comp = NO_VAL, .step_id = NO_VAL})
#else
#define JOB_OF(info) ((info)->job_id)
#define ID_OF(job) (job)
#endif

/* Since when each job leaves a record on this node, and which GRES ask for HCAs: names with
 * commas, or * for all jobs (lib/state, expected.go). */
struct expected {
	time_t since;
	char gres[RECORD_SIZE];
};

enum finding { FOUND, FOUND_NONE, FOUND_UNKNOWN };

static enum finding read_expected(int dir, const char *name, struct expected *expected)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || record_link(dir, name, expected->gres, sizeof(expected->gres)))
		return errno == ENOENT || errno == ENOTDIR ? FOUND_NONE : FOUND_UNKNOWN;
	expected->since = st.st_mtime;
	return FOUND;
}

/* find_expected tells whether jobs leave records here: a prolog or gresnet.service has said so since the
 * boot, or setup has for all boots. A node with the package alone has neither. */
static enum finding find_expected(int runs, struct expected *expected)
{
	enum finding finding = runs == -1 ? FOUND_NONE : read_expected(runs, "expected", expected);

	return finding == FOUND_NONE ? read_expected(AT_FDCWD, SETUP "/expected", expected) : finding;
}

/* is_named tells whether a name, of the given length, is in a list with commas. */
static bool is_named(const char *list, const char *name, size_t length)
{
	for (const char *at = list; *at;) {
		size_t n = strcspn(at, ",");

		if (n == length && !strncmp(at, name, length))
			return true;
		at += n + (at[n] == ',');
	}
	return false;
}

/* has_gres tells whether a job's GRES on a node are some of those named. Slurm writes
 * nic:2(IDX:0-1,3),gpu:h100:1(IDX:0), nic:hdr(CNT:2), and a count of 0 for none. */
static bool has_gres(const char *detail, const char *names)
{
	while (*detail) {
		size_t name = strcspn(detail, ":(,");
		size_t head = strcspn(detail, "(,");
		size_t count = head;
		const char *more = detail + head;
		bool none;

		while (count > 0 && detail[count - 1] != ':')
			count--;
		none = (count > 0 && head - count == 1 && detail[count] == '0') || !strncmp(more, "(CNT:0)", strlen("(CNT:0)"));
		if (!none && is_named(names, detail, name))
			return true;
		if (*more == '(')
			more += strcspn(more, ")");
		more += strcspn(more, ",");
		detail = more + (*more == ',');
	}
	return false;
}

/* asked tells whether a job that slurmctld knows wanted a record. */
static bool asked(const job_info_t *info, const struct expected *expected)
{
	if (info->start_time < expected->since)
		return false; /* there were no records yet */
	if (is_named(expected->gres, "*", strlen("*")))
		return true;
	for (uint32_t i = 0; i < info->gres_detail_cnt; i++)
		if (info->gres_detail_str[i] && has_gres(info->gres_detail_str[i], expected->gres))
			return true;
	return false;
}

/* is_over tells whether a job that wanted records has ended: slurmctld no longer says then what it asked for. slurmd may
 * begin a step of it all the same, when the job was canceled because its prolog failed. */
static bool is_over(const job_info_t *info, const struct expected *expected)
{
	return info->start_time >= expected->since && (info->job_state & JOB_STATE_BASE) > JOB_SUSPENDED;
}

/* ask_slurmctld returns 1 if the job asked for HCAs, 0 if it did not, -1 if nobody knows. */
static int ask_slurmctld(uint32_t job, const struct expected *expected)
{
	job_info_msg_t *all = NULL;
	int rc = -1;

	if (slurm_load_job(&all, ID_OF(job), SHOW_DETAIL))
		goto out;
	for (uint32_t i = 0; i < all->record_count && rc != 1; i++)
		if (JOB_OF(&all->job_array[i]) == job)
			rc = asked(&all->job_array[i], expected) ? 1 : -is_over(&all->job_array[i], expected);
out:
	if (all)
		slurm_free_job_info_msg(all);
	return rc;
}

/* judge_absence is about a prolog that left no record. */
static void judge_absence(int runs, const char *state, uint32_t job, char *text, size_t size)
{
	struct expected expected;

	switch (find_expected(runs, &expected)) {
	case FOUND:
		break;
	case FOUND_NONE:
		return;
	case FOUND_UNKNOWN:
		snprintf(text, size, "gresnet: job %u: gresnet-prolog did not run to its end on this node, and nobody can read whether "
			 "it had to (%s/runs/expected, /var/lib/gresnet/setup/expected): %s; hint: remove what is there, and run setup again [GN500]",
			 job, state, strerror(errno));
		return;
	}
	switch (ask_slurmctld(job, &expected)) {
	case 0:
		return;
	case 1:
		snprintf(text, size, "gresnet: job %u: gresnet-prolog did not run to its end on this node, and the job is to have HCAs; "
			 "hint: gresnet check says more [GN422]", job);
		break;
	default:
		snprintf(text, size, "gresnet: job %u: gresnet-prolog did not run to its end on this node, and slurmctld does not say "
			 "whether the job is to have HCAs; hint: gresnet check says more [GN423]", job);
	}
	record_leave_word(runs, text);
}

void absent_judge(const char *state, const struct step *step, char *text, size_t size)
{
	int runs;
	int dir = lease_dir(state, step->job);

	if (dir != -1 || errno != ENOENT) {
		/* lease_open says what is wrong with it, as long as it is there. A task that finds none later must fail. */
		record_gone(step->job, text, size);
		if (dir != -1)
			close(dir);
		return;
	}
	*text = '\0';
	runs = record_open(state, step->job, text, size);
	if (!*text && !record_found(runs, step->job, text, size))
		judge_absence(runs, state, step->job, text, size);
	if (runs != -1)
		close(runs);
}
