/* What a prolog left of its run for a job that has no lease: a symbolic link,
 * STATE/runs/JOB, whose target is text (lib/state, record.go). Of a job without one see absent.c. */
#include "record.h"

#include <errno.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int record_link(int dir, const char *name, char *text, size_t size)
{
	ssize_t n = readlinkat(dir, name, text, size - 1);

	if (n == -1)
		return -1;
	text[n] = '\0';
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return 0;
}

void record_leave_word(int runs, const char *what)
{
	if (runs == -1 || (unlinkat(runs, "missed", 0) == -1 && errno != ENOENT))
		return;
	if (symlinkat(what, runs, "missed") == -1 && errno != EEXIST)
		slurm_error("gresnet: note for gresnet check: %m");
}

void record_gone(uint32_t job, char *text, size_t size)
{
	snprintf(text, size, "gresnet: job %u: the lease that gresnet-prolog took is gone; "
		 "hint: see in slurmd's log who removed it [GN420]", job);
}

/* judge_record is about a prolog that ran to its end. */
static void judge_record(int runs, uint32_t job, const char *record, char *text, size_t size)
{
	const char *why = strstr(record, " why=");
	const char *by = strstr(record, " by=slurmd:");
	int length;

	if (!strncmp(record, "exit=0 ", strlen("exit=0 "))) {
		if (strstr(record, " lease=yes "))
			record_gone(job, text, size);
		return;
	}
	by = by ? by + strlen(" by=slurmd:") : "its caller";
	length = (int)(strncmp(by, "its ", strlen("its ")) ? strcspn(by, " ") : strlen(by));
	why = why ? why + strlen(" why=") : "slurmd's log says why";
	snprintf(text, size, "gresnet: job %u: gresnet-prolog failed, and %.*s went on: %s; "
		 "hint: let it end with gresnet-prolog's exit code [GN421]", job, length, by, why);
	record_leave_word(runs, text);
}

int record_open(const char *state, uint32_t job, char *text, size_t size)
{
	int runs = lease_folder(state, job, "runs");

	if (runs == -1 && errno != ENOENT)
		snprintf(text, size, "gresnet: job %u: %s/runs cannot be trusted; hint: see the reason in slurmd's log [GN424]", job, state);
	return runs;
}

bool record_found(int runs, uint32_t job, char *text, size_t size)
{
	char name[sizeof("4294967295")];
	char record[RECORD_SIZE];

	snprintf(name, sizeof(name), "%u", job);
	if (runs == -1 || record_link(runs, name, record, sizeof(record)))
		return false;
	judge_record(runs, job, record, text, size);
	return true;
}
