/* The part of libpam that the module calls, and the module's say_to: slurm.c keeps what is said. */
#include "pam.h"

#include <pwd.h>
#include <security/pam_modules.h>
#include <security/pam_modutil.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox.h"
#include "say.h"

struct pam pam;

void say_to(pam_handle_t *pamh, bool silent)
{
	(void)pamh, (void)silent;
}

int pam_get_item(const pam_handle_t *pamh, int type, const void **item)
{
	(void)pamh;
	*item = type == PAM_USER ? pam.user : NULL;
	return *item ? PAM_SUCCESS : PAM_BAD_ITEM;
}

const char *pam_strerror(pam_handle_t *pamh, int code)
{
	(void)pamh;
	return code == PAM_SUCCESS ? "Success" : "some error";
}

struct passwd *pam_modutil_getpwnam(pam_handle_t *pamh, const char *name)
{
	static struct passwd user;

	(void)pamh;
	user = (struct passwd){.pw_uid = strcmp(name, "alice") ? 1001 : 1000};
	return strcmp(name, "alice") && strcmp(name, "bob") ? NULL : &user;
}

/* place is where the variable is, or the first free place. */
static char **place(const char *name, size_t length)
{
	char **at = pam.env;

	while (*at && (strncmp(*at, name, length) || (*at)[length] != '='))
		at++;
	return at;
}

const char *pam_getenv(pam_handle_t *pamh, const char *name)
{
	char *found = *place(name, strlen(name));

	(void)pamh;
	return found ? found + strlen(name) + 1 : NULL;
}

int pam_putenv(pam_handle_t *pamh, const char *variable)
{
	char **at = place(variable, strcspn(variable, "="));

	(void)pamh;
	if (pam.full)
		return PAM_BUF_ERR;
	free(*at);
	*at = strdup(variable);
	must(*at != NULL, "memory");
	return PAM_SUCCESS;
}
