#ifndef GRESNET_TEXT_H
#define GRESNET_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* text_trusts returns 0 if only root can have written what fd stands for, else -1 with the
 * reason logged under the name given. */
int text_trusts(uint32_t job, int fd, const char *name);

/* text_read reads a file of a lease into text: lines of printable characters,
 * each with its end, and a NUL after the last; size has room for the NUL. Nobody
 * but root can have written the file. It returns 0, or -1 with the reason logged;
 * where the file is not there nothing is logged, and errno is ENOENT. */
int text_read(uint32_t job, int dir, const char *name, char *text, size_t size);

/* text_read_all reads a file to its end. It returns the bytes read, which are
 * size if the file has that many or more, or -1. */
ssize_t text_read_all(int fd, char *buffer, size_t size);

#endif
