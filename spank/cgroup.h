#ifndef GRESNET_CGROUP_H
#define GRESNET_CGROUP_H

#include "lease.h"

#define CGROUPS "/sys/fs/cgroup" /* cgroup v2 */

enum { CGROUP_MAX = 4096 };

/* cgroup_of_job writes the job's cgroup, a path below CGROUPS, for a process of
 * one of its steps; path has room for CGROUP_MAX bytes. Where the process is in
 * no cgroup of that step it returns -1, and path has where it is, which is empty
 * without cgroup v2. */
int cgroup_of_job(const struct step *step, char *path);

#endif
