#ifndef GRESNET_CGROUP_H
#define GRESNET_CGROUP_H

#include "lease.h"

#define CGROUPS "/sys/fs/cgroup" /* cgroup v2 */

enum { CGROUP_MAX = 4096 };

enum cgroup {
	CGROUP_UNKNOWN = -1, /* it cannot be read; the reason is logged */
	CGROUP_NONE,         /* the process is in no cgroup of the step */
	CGROUP_FOUND,
};

/* cgroup_of_job writes the job's cgroup, a path below CGROUPS, for a process of
 * one of its steps; path has room for CGROUP_MAX bytes. Where there is none path
 * has where the process is, which is empty without cgroup v2. */
enum cgroup cgroup_of_job(const struct step *step, char *path);

#endif
