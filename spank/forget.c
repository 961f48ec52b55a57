/* What a plugin gave the process that started this task. */
#include "forget.h"
#include "export.h"
#include "variables.h"

#include <stdlib.h>
#include <string.h>

static const char *value_in(char **env, const char *name)
{
	size_t length = strlen(name);

	for (; *env; env++)
		if (!strncmp(*env, name, length) && (*env)[length] == '=')
			return *env + length + 1;
	return NULL;
}

/* forget unsets one variable of ours and, if it says what another was set to and
 * that was not changed since, the other, too. */
static int forget(spank_t spank, uint32_t job, char **env, const char *variable)
{
	const char *has = NULL;
	char *name = strdup(variable);
	int rc = -1;

	if (!name)
		goto out;
	*strchr(name, '=') = '\0';
	if (!strncmp(name, GAVE, strlen(GAVE)))
		has = value_in(env, name + strlen(GAVE));
	if (has && !strcmp(has, variable + strlen(name) + 1) && spank_unsetenv(spank, name + strlen(GAVE)))
		goto out;
	if (!spank_unsetenv(spank, name))
		rc = 0;
out:
	if (rc)
		slurm_error("gresnet: job %u: unset %s", job, name ? name : "a variable");
	free(name);
	return rc;
}

int forget_exports(spank_t spank, uint32_t job)
{
	return variables_forget(spank, job, export_ours, forget);
}
