/* The environment of a task, from which is taken what others have left in it. */
#include "variables.h"

#include <string.h>

int variables_forget(spank_t spank, uint32_t job, bool (*is_meant)(const char *variable),
		     int (*forget)(spank_t spank, uint32_t job, char **env, const char *variable))
{
	char **env;
	size_t i;

	do {
		i = 0; /* what is unset moves the rest */
		if (spank_get_item(spank, S_JOB_ENV, &env)) {
			slurm_error("gresnet: job %u: ask Slurm for the task's environment", job);
			return -1;
		}
		while (env[i] && !(is_meant(env[i]) && strchr(env[i], '=')))
			i++;
		if (env[i] && forget(spank, job, env, env[i]))
			return -1;
	} while (env[i]);
	return 0;
}
