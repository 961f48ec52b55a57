/* gresnet's PAM module: a session of ssh that pam_slurm_adopt has put into a job which
 * holds a lease is in the job's network namespace and sees the job's HCAs only, as a task is.
 *
 * sshd opens the session in the one process of root's that it has for a connection, before
 * that forks the user's half: what the shell, a subsystem and forwarded ports are in, all
 * of them, is what this process is in. It stays in there itself. What it has yet to do, it
 * can do there: files and Unix sockets are the node's, through a mount namespace to which the
 * node's mounts propagate, and the connection to the client is a socket of the node's, which
 * was open before.
 *
 * A session that fails here does not begin: sshd executes nothing and forwards nothing
 * then, whatever this process is in (auth-pam.c:do_pam_session, session.c:do_child). */
#include <errno.h>
#include <security/pam_ext.h>
#include <security/pam_modules.h>
#include <security/pam_modutil.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adopted.h"
#include "enter.h"
#include "export.h"
#include "guard.h"
#include "lease.h"
#include "say.h"
#include "record.h"

#define STATE "state="

/* read_arguments returns where the leases are, or NULL with the reason logged. */
static const char *read_arguments(int argc, const char *argv[])
{
	const char *state = "/run/gresnet";

	for (int i = 0; i < argc; i++) {
		if (strncmp(argv[i], STATE "/", strlen(STATE "/"))) {
			slurm_error("gresnet: PAM's configuration: unknown argument %s; "
				    "hint: there is " STATE "DIR; DIR is an absolute path [GN038]", argv[i]);
			return NULL;
		}
		state = argv[i] + strlen(STATE);
	}
	return state;
}

/* check_variable holds the job that pam_slurm_adopt says, where it says one, against
 * that of the cgroup. They differ where the session's process was taken out of the job
 * again, or was never in it (ADOPTED_NONE: job is 0). */
static int check_variable(pam_handle_t *pamh, uint32_t job)
{
	const char *said = pam_getenv(pamh, "SLURM_JOB_ID");
	char text[sizeof("4294967295")];

	snprintf(text, sizeof(text), "%u", job);
	if (!said || !strcmp(said, text))
		return 0;
	if (job)
		slurm_error("gresnet: this session is in a cgroup of job %u, and SLURM_JOB_ID says job %s", job, said);
	else
		slurm_error("gresnet: SLURM_JOB_ID says job %s, and this session is in no cgroup of a job; "
			    "hint: pam_systemd takes a session out of its job; "
			    "ProctrackType=proctrack/cgroup puts it into one [GN039]", said);
	return -1;
}

/* check_alone: what is entered would be one thread's. */
static int check_alone(uint32_t job)
{
	struct stat st;

	if (stat("/proc/self/task", &st) == -1) {
		slurm_error("gresnet: job %u: stat /proc/self/task: %m", job);
		return -1;
	}
	if (st.st_nlink != 3) { /* a thread, and two for the directory itself */
		slurm_error("gresnet: job %u: the process that opens the session has several threads; "
			    "hint: this module is for sshd [GN040]", job);
		return -1;
	}
	return 0;
}

static int find_user(pam_handle_t *pamh, uid_t *uid)
{
	const void *name = NULL;
	const struct passwd *user;
	int rc = pam_get_item(pamh, PAM_USER, &name);

	if (rc != PAM_SUCCESS || !name) {
		slurm_error("gresnet: ask PAM for the session's user: %s", pam_strerror(pamh, rc));
		return -1;
	}
	user = pam_modutil_getpwnam(pamh, name);
	if (!user) {
		slurm_error("gresnet: find user %s: there is none", (const char *)name);
		return -1;
	}
	*uid = user->pw_uid;
	return 0;
}

/* set_in_session sets a variable of the session: struct environment. */
static enum setting set_in_session(void *pamh, uint32_t job, const struct variable *v, bool overwrite)
{
	enum setting rc = SET_FAILED;
	char *text = NULL;

	if (!overwrite && pam_getenv(pamh, v->name))
		return SET_KEPT;
	if (asprintf(&text, "%s=%s", v->name, v->value) == -1) {
		text = NULL;
		slurm_error("gresnet: job %u: set %s: no memory", job, v->name);
		goto out;
	}
	if (pam_putenv(pamh, text) != PAM_SUCCESS) {
		slurm_error("gresnet: job %u: set %s: PAM does not take it", job, v->name);
		goto out;
	}
	rc = SET_DONE;
out:
	free(text);
	return rc;
}

/* go_without leaves a session without a lease in the node's network, unless its job's prolog took
 * one, or failed and nobody heard of it. */
static int go_without(const char *state, uint32_t job)
{
	char text[RECORD_ERROR] = "";
	int runs = record_open(state, job, text, sizeof(text));

	if (*text)
		return PAM_SESSION_ERR; /* the reason is logged */
	if (record_found(runs, job, text, sizeof(text)) && *text)
		slurm_error("%s", text);
	if (runs != -1)
		close(runs);
	return *text ? PAM_SESSION_ERR : PAM_IGNORE;
}

/* go_inside does for the session what slurm_spank_task_init_privileged does for a task. */
static int go_inside(pam_handle_t *pamh, const char *state, const struct step *step)
{
	const struct environment environment = {set_in_session, pamh};
	struct lease lease;
	int rc = PAM_SESSION_ERR;

	switch (lease_open(&lease, state, step)) {
	case LEASE_NONE:
		return go_without(state, step->job);
	case LEASE_BROKEN:
		return PAM_SESSION_ERR;
	case LEASE_HELD:
		if (!check_alone(step->job) && !guard_allow(&lease, step) && !enter(&lease, state) &&
		    !export_variables(&environment, &lease))
			rc = PAM_SUCCESS;
		lease_close(&lease);
	}
	return rc;
}

int pam_sm_open_session(pam_handle_t *pamh, int flags, int argc, const char *argv[])
{
	struct step step = {.id = SLURM_EXTERN_CONT, .speaks = true};
	const char *state;
	enum adopted adopted;
	int rc = PAM_SESSION_ERR;

	say_to(pamh, (flags & (int)PAM_SILENT) != 0);
	adopted = adopted_by(&step.job);
	if (adopted == ADOPTED_UNKNOWN || check_variable(pamh, step.job))
		goto out;
	if (adopted == ADOPTED_NONE) {
		rc = PAM_IGNORE;
		goto out;
	}
	state = read_arguments(argc, argv);
	if (state && !find_user(pamh, &step.uid))
		rc = go_inside(pamh, state, &step);
out:
	say_to(NULL, true);
	return rc;
}

/* pam_sm_close_session has nothing to undo: both namespaces are the job's, and this process
 * ends next. */
int pam_sm_close_session(pam_handle_t *pamh, int flags, int argc, const char *argv[])
{
	(void)pamh, (void)flags, (void)argc, (void)argv;
	return PAM_SUCCESS;
}
