#ifndef GRESNET_HIDDEN_H
#define GRESNET_HIDDEN_H

#include <stdbool.h>
#include <stdint.h>

/* hidden_here tells whether a job's lease, which the task does not see, may be there
 * for others; then the reason is logged. */
bool hidden_here(const char *state, uint32_t job);

#endif
