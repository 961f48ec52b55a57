#ifndef GRESNET_RECORD_H
#define GRESNET_RECORD_H

#include "lease.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	RECORD_SIZE = 1024,  /* of the text of a link, with its NUL */
	RECORD_ERROR = 1280, /* of the error that is made of it */
};

/* record_open opens the folder of records. Where it is not there it returns -1; where it cannot be
 * trusted, too, and fills text, which is empty before, with the error of a job that has no lease. */
int record_open(const char *state, uint32_t job, char *text, size_t size);

/* record_found tells whether the prolog of a job without a lease left a record, and fills text with the
 * job's error if it failed, and somebody swallowed that, or took a lease. */
bool record_found(int runs, uint32_t job, char *text, size_t size);

/* record_gone fills text with the error of a job whose lease is gone. */
void record_gone(uint32_t job, char *text, size_t size);

/* record_link fills text with the target of a link, made printable. It returns -1 with errno
 * set if there is none. */
int record_link(int dir, const char *name, char *text, size_t size);

/* record_leave_word notes for gresnet check what was found instead of a good record. */
void record_leave_word(int runs, const char *what);

#endif
