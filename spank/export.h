#ifndef GRESNET_EXPORT_H
#define GRESNET_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "lease.h"

/* What the names of our own variables begin with. */
#define OURS "GRESNET_"
/* With a variable's name after it: what we have set that to. */
#define GAVE OURS "GAVE_"

bool export_ours(const char *name);

enum setting {
	SET_FAILED = -1, /* the reason is logged */
	SET_DONE,
	SET_KEPT, /* it has a value, which was not to be overwritten */
};

/* Where variables are set: a task's environment, or that of a session of ssh. */
struct environment {
	enum setting (*set)(void *of, uint32_t job, const struct variable *v, bool overwrite);
	void *of;
};

/* export_variables sets the lease's variables. It returns -1 with the reason logged. */
int export_variables(const struct environment *to, const struct lease *lease);

#endif
