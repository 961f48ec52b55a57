/* What slurmstepd gives the plugin, and nobody a PAM module: slurm_error and slurm_info. */
#include "say.h"

#include <errno.h>
#include <security/pam_ext.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdio.h>
#include <syslog.h>

enum { TEXT_MAX = 8192 }; /* the longest has a value of a lease */

static pam_handle_t *session;
static bool quiet;

void say_to(pam_handle_t *pamh, bool silent)
{
	session = pamh;
	quiet = silent;
}

/* slurm_error leaves errno as it is, as Slurm's does. */
void slurm_error(const char *format, ...)
{
	char text[TEXT_MAX];
	int reason = errno;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (session)
		pam_syslog(session, LOG_ERR, "%s", text);
	/* Who cannot be told finds it in the log. */
	if (session && !quiet)
		(void)pam_error(session, "%s", text);
	errno = reason;
}

/* slurm_info is for the site: the user can do nothing about it. */
void slurm_info(const char *format, ...)
{
	char text[TEXT_MAX];
	int reason = errno;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (session)
		pam_syslog(session, LOG_INFO, "%s", text);
	errno = reason;
}
