#ifndef GRESNET_ARGUMENTS_H
#define GRESNET_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

/* What the line in plugstack.conf says. */
struct arguments {
	const char *state; /* where the leases are */
	enum enters {
		ENTER_STEPS,  /* tasks of srun steps enter their job's namespace */
		ENTER_SINGLE, /* and so do batch scripts of jobs of one node */
		ENTER_SRUN,   /* and those of jobs in which srun works */
		ENTER_BATCH,  /* and those of all jobs */
		ENTER_ALL,    /* and the interactive steps of salloc */
	} who;
	bool relay;      /* PMIx is relayed into the namespace */
	bool notice;     /* scripts that do not enter are told so, and jobs why they have fewer HCAs */
	bool allow_none; /* users may say --gresnet=none */
};

/* arguments_read returns -1, with the reason logged, if the line has anything
 * that it may not have. */
int arguments_read(struct arguments *arguments, int argc, char *argv[]);

/* What of a job decides whether its batch script enters. */
struct about {
	bool single; /* it has one node */
	bool srun;   /* srun works inside */
};

/* arguments_enter tells whether tasks of a step enter, by the step's id and its job. */
bool arguments_enter(const struct arguments *arguments, uint32_t step, struct about job);

#endif
