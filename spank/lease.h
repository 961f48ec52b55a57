#ifndef GRESNET_LEASE_H
#define GRESNET_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	ENV_SIZE_MAX = 65536, /* bytes of a lease's env */
	ENV_LINES_MAX = 256,
	ENV_NAME_MAX = 64,
	ENV_VALUE_MAX = 4096,
};

/* The step whose task is about to start, as slurmstepd describes it. */
struct step {
	uint32_t job;      /* of a heterogeneous job: the component's own id */
	uint32_t id;
	uint32_t restarts; /* 0 also where Slurm does not know */
	uid_t uid;
	bool speaks; /* the step's first task, or a session: it alone logs what holds for all */
};

/* One line of env: NAME=VALUE. Both point into the lease's text. */
struct variable {
	const char *name;
	const char *value;
};

/* The first lines of env, in this order; those after them are for the task. In
 * a refused lease the reason stands in the place of the namespace. */
enum { LINE_LEASE, LINE_JOB, LINE_RUN, LINE_UID, LINE_NETNS, HEAD_LINES };

/* What the prolog wrote for a job into STATE/jobs/JOB, opened and verified. */
struct lease {
	uint32_t job;
	int dir;   /* O_PATH */
	int netns; /* the job's network namespace, or -1 if the job is in the node's */
	char text[ENV_SIZE_MAX + 1];
	struct variable line[ENV_LINES_MAX];
	size_t lines;
};

/* lease_has_network tells whether the job has a network namespace of its own.
 * One that has not has device nodes of its own alone. */
bool lease_has_network(const struct lease *lease);

/* lease_has_srun tells whether srun works in the job's network namespace: it reaches the
 * controller, and the job's nodes call it back. The prolog knows, and says so in env. */
bool lease_has_srun(const struct lease *lease);

enum holding {
	LEASE_BROKEN = -1, /* or refused, or another run's; the reason is logged */
	LEASE_NONE,        /* the job has no HCAs on this node */
	LEASE_HELD,
};

/* lease_open reads and verifies the lease of a step's job. Only of a lease
 * that is held is there something to close. */
enum holding lease_open(struct lease *lease, const char *state, const struct step *step);
void lease_close(struct lease *lease);

/* lease_folder opens a folder of the state directory (O_PATH), following no symbolic link. It
 * returns -1 as lease_dir does. */
int lease_folder(const char *state, uint32_t job, const char *name);

/* lease_dir opens STATE/jobs/JOB (O_PATH), following no symbolic link. It
 * returns -1 with the reason logged, or -1 with errno ENOENT and nothing
 * logged where the job has no lease. */
int lease_dir(const char *state, uint32_t job);

/* lease_mark leaves a mark in the job's lease, if it has one: the job has an
 * extern step, which lives until the job's epilog. By that a cleanup tells a job
 * that is gone from one that is about to start. Returns 0, or -1 with the
 * reason logged. */
int lease_mark(const char *state, uint32_t job);

/* lease_marked tells whether the job's lease has the mark. */
bool lease_marked(const char *state, uint32_t job);

/* lease_notice reads the line that the prolog left for a job that gets fewer HCAs than
 * it could expect, whether it has a lease or not. The text is empty if there is none,
 * or none that can be read; the reason of the second is logged. */
void lease_notice(const char *state, uint32_t job, char *text, size_t size);

#endif
