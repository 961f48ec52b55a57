/* The environment of a task: the lease's variables go in, and those that others have left there go out. */
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

enum setting variables_set(void *spank, uint32_t job, const struct variable *v, bool overwrite)
{
	spank_err_t err = spank_setenv(spank, v->name, v->value, overwrite);

	if (err == ESPANK_ENV_EXISTS && !overwrite)
		return SET_KEPT;
	if (err == ESPANK_SUCCESS)
		return SET_DONE;
	slurm_error("gresnet: job %u: set %s: %s", job, v->name, spank_strerror(err));
	return SET_FAILED;
}
