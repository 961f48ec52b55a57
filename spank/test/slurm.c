/* The part of Slurm that the plugin calls, as slurmstepd has it. */
#include "slurm.h"

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct slurm slurm;

static void say(const char *format, va_list args)
{
	size_t have = strlen(slurm.said);

	vsnprintf(slurm.said + have, sizeof(slurm.said) - have, format, args);
	have = strlen(slurm.said);
	snprintf(slurm.said + have, sizeof(slurm.said) - have, "\n");
}

void slurm_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

void slurm_info(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

spank_context_t spank_context(void)
{
	return slurm.context;
}

const char *spank_strerror(spank_err_t err)
{
	return err == ESPANK_NOT_AVAIL ? "not available" : "some error";
}

/* make_envp makes the environment again: what was asked for before is good no more. */
static char **make_envp(void)
{
	for (char **old = slurm.envp; *old; old++)
		free(*old);
	for (size_t i = 0; i < slurm.envs; i++) {
		size_t size = sizeof(slurm.env[i].name) + sizeof(slurm.env[i].value) + 1;

		slurm.envp[i] = malloc(size);
		if (!slurm.envp[i])
			abort();
		snprintf(slurm.envp[i], size, "%s=%s", slurm.env[i].name, slurm.env[i].value);
	}
	slurm.envp[slurm.envs] = NULL;
	return slurm.envp;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
	spank_err_t err = ESPANK_SUCCESS;
	va_list args;

	(void)spank;
	va_start(args, item);
	switch (item) {
	case S_JOB_ID:
		*va_arg(args, uint32_t *) = slurm.job;
		break;
	case S_JOB_STEPID:
		*va_arg(args, uint32_t *) = slurm.step;
		break;
	case S_JOB_UID:
		*va_arg(args, uid_t *) = slurm.uid;
		break;
	case S_SLURM_RESTART_COUNT:
		*va_arg(args, uint32_t *) = slurm.restarts;
		err = slurm.restarts_error;
		break;
	case S_JOB_LOCAL_TASK_COUNT:
		*va_arg(args, uint32_t *) = slurm.tasks;
		err = slurm.tasks_error;
		break;
	case S_TASK_ID:
		*va_arg(args, int *) = slurm.task;
		break;
	case S_JOB_ENV:
		*va_arg(args, char ***) = make_envp();
		break;
	default:
		err = ESPANK_BAD_ARG;
	}
	va_end(args);
	return err;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
	(void)spank;
	slurm.option = *option;
	return ESPANK_SUCCESS;
}

const char *task_env(const char *name)
{
	for (size_t i = 0; i < slurm.envs; i++)
		if (!strcmp(slurm.env[i].name, name))
			return slurm.env[i].value;
	return NULL;
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value, int overwrite)
{
	size_t i = 0;

	(void)spank;
	while (i < slurm.envs && strcmp(slurm.env[i].name, name))
		i++;
	if (i < slurm.envs && !overwrite)
		return ESPANK_ENV_EXISTS;
	if (i == sizeof(slurm.env) / sizeof(slurm.env[0]))
		return ESPANK_NOSPACE;
	if (i == slurm.envs)
		slurm.envs++;
	snprintf(slurm.env[i].name, sizeof(slurm.env[i].name), "%s", name);
	snprintf(slurm.env[i].value, sizeof(slurm.env[i].value), "%s", value);
	return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t spank, const char *name)
{
	(void)spank;
	for (size_t i = 0; i < slurm.envs; i++)
		if (!strcmp(slurm.env[i].name, name)) {
			slurm.envs--;
			memmove(&slurm.env[i], &slurm.env[i + 1], (slurm.envs - i) * sizeof(slurm.env[0]));
			return ESPANK_SUCCESS;
		}
	return ESPANK_ENV_NOEXIST;
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *buffer, int size)
{
	const char *value = task_env(name);

	(void)spank;
	if (!value)
		return ESPANK_ENV_NOEXIST;
	return snprintf(buffer, (size_t)size, "%s", value) < size ? ESPANK_SUCCESS : ESPANK_NOSPACE;
}

/* From 26.05 on the name is a macro's, too. */
#undef slurm_load_job
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
int slurm_load_job(job_info_msg_t **all, slurm_step_id_t id, uint16_t flags)
{
	uint32_t job = id.job_id;
#else
int slurm_load_job(job_info_msg_t **all, uint32_t job, uint16_t flags)
{
#endif
	slurm.asked++;
	if (!slurm.gres || !(flags & SHOW_DETAIL))
		return SLURM_ERROR;
	*all = calloc(1, sizeof(**all));
	if (!*all || !((*all)->job_array = calloc(2, sizeof(job_info_t))))
		abort();
	(*all)->record_count = 2;
	for (uint32_t i = 0; i < 2; i++) {
		job_info_t *info = &(*all)->job_array[i];

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
		info->step_id.job_id = job + 1 - i; /* another component of the job comes first */
#else
		info->job_id = job + 1 - i;
#endif
		info->start_time = slurm.started;
		info->job_state = slurm.state;
		info->gres_detail_cnt = 1;
		info->gres_detail_str = calloc(1, sizeof(char *));
		if (!info->gres_detail_str || !(info->gres_detail_str[0] = strdup(i ? slurm.gres : "nic:9(IDX:0-8)")))
			abort();
	}
	return SLURM_SUCCESS;
}

void slurm_free_job_info_msg(job_info_msg_t *all)
{
	for (uint32_t i = 0; i < all->record_count; i++) {
		free(all->job_array[i].gres_detail_str[0]);
		free(all->job_array[i].gres_detail_str);
	}
	free(all->job_array);
	free(all);
}
