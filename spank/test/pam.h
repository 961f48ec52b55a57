#ifndef GRESNET_TEST_PAM_H
#define GRESNET_TEST_PAM_H

#include <security/pam_modules.h>
#include <stdbool.h>

/* What stands in for libpam: it answers the module and keeps what that sets. Its users are
 * alice (1000) and bob (1001). */
struct pam {
	const char *user;
	char *env[400];
	bool full; /* takes no more variables */
};

extern struct pam pam;

/* What the module knows libpam by. */
#define SESSION ((pam_handle_t *)&pam)

#endif
