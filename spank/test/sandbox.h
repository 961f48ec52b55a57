#ifndef GRESNET_TEST_SANDBOX_H
#define GRESNET_TEST_SANDBOX_H

#include <stddef.h>
#include <sys/types.h>

#define STATE "/run/gresnet"
#define LEASE STATE "/jobs/4711"

/* What a good env begins with. In the text of an env, @ stands for the
 * namespace's device and inode number. */
#define HEAD "GRESNET_LEASE=1\nGRESNET_JOB=4711\nGRESNET_RUN=2\nGRESNET_UID=1000\n"
#define NETNS "GRESNET_NETNS=@\n"

/* sandbox_enter makes this process a node: with namespaces of its own for
 * mounts (all shared, so that a plugin that mounts something outside its own
 * shows) and for network (interface host0), with a private /dev and /run, and
 * a /sys with submounts. A job's namespace with the interface job0 is there. */
void sandbox_enter(void);

/* lease_make makes the good lease of job 4711, lease_drop takes away all of /run. */
void lease_make(void);
void lease_drop(void);

/* lease_bind binds the file at path over the lease's netns. */
void lease_bind(const char *path);

void write_bytes(const char *path, const char *bytes, size_t length);
void write_env(const char *text);

/* job_netns tells whether this process is in the job's network namespace. */
int job_netns(void);

/* must ends the harness, with the reason, where its own doings fail. */
void must(int ok, const char *what);

#endif
