#ifndef GRESNET_ADOPTED_H
#define GRESNET_ADOPTED_H

#include <stdint.h>

enum adopted {
	ADOPTED_UNKNOWN = -1, /* the reason is logged */
	ADOPTED_NONE,         /* by no job */
	ADOPTED_BY_JOB,
};

/* adopted_by tells which job's extern step the calling process is in, by its cgroup. */
enum adopted adopted_by(uint32_t *job);

#endif
