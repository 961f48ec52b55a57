#ifndef GRESNET_ABSENT_H
#define GRESNET_ABSENT_H

#include "lease.h"

#include <stddef.h>

/* absent_judge fills text with the error of a task that finds no lease of its job, though the job
 * should have one: there is one when the step begins; the prolog failed and somebody swallowed that;
 * or it never ran to its end, and the job asked for HCAs. The text is empty if the job's tasks may
 * run in the node's network. Of a job with a lease, or with a record, it asks nobody; of others it
 * asks slurmctld. */
void absent_judge(const char *state, const struct step *step, char *text, size_t size);

#endif
