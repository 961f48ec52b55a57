#ifndef GRESNET_SIGN_H
#define GRESNET_SIGN_H

#include "lease.h"

#include <stddef.h>

/* sign_judge fills text with the error of a job that has no lease and should have one: its
 * prolog failed and somebody swallowed that, or never ran to its end though the job asked for
 * HCAs. The text is empty if the job's tasks may run in the node's network. Of a job with a lease, or with the
 * sign of a prolog that found no HCA for it, it asks nobody; of others it asks slurmctld. */
void sign_judge(const char *state, const struct step *step, char *text, size_t size);

#endif
