#ifndef GRESNET_SIGN_H
#define GRESNET_SIGN_H

#include "lease.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	SIGN_SIZE = 1024,  /* of the text of a link, with its NUL */
	SIGN_ERROR = 1280, /* of the error that is made of it */
};

/* sign_open opens the folder of signs. Where it is not there it returns -1; where it cannot be
 * trusted, too, and fills text, which is empty before, with the error of a job that has no lease. */
int sign_open(const char *state, uint32_t job, char *text, size_t size);

/* sign_found tells whether the prolog of a job without a lease left a sign, and fills text with the
 * job's error if it failed, and somebody swallowed that, or took a lease. */
bool sign_found(int runs, uint32_t job, char *text, size_t size);

/* sign_gone fills text with the error of a job whose lease is gone. */
void sign_gone(uint32_t job, char *text, size_t size);

/* sign_link fills text with the target of a link, made printable. It returns -1 with errno
 * set if there is none. */
int sign_link(int dir, const char *name, char *text, size_t size);

/* sign_leave_word notes for gresnet check what was found instead of a good sign. */
void sign_leave_word(int runs, const char *what);

#endif
