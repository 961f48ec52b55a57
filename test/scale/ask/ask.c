/* ask JOB PROCESSES CALLS: that many processes ask slurmctld that often about a job, as
 * `scontrol show job -d` does, one after the other. Prints the time of each answer in
 * microseconds. SLURM_CONF says where slurmctld is. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static int ask(uint32_t job, int calls) {
	int failed = 0;
	for (int i = 0; i < calls; i++) {
		job_info_msg_t *answer = NULL;
		long begin = now();
		if (slurm_load_job(&answer, job, SHOW_DETAIL) != SLURM_SUCCESS) {
			fprintf(stderr, "ask about job %u: %s\n", job, slurm_strerror(slurm_get_errno()));
			failed = 1;
			continue;
		}
		char line[32];
		int n = snprintf(line, sizeof line, "%ld\n", now() - begin);
		if (write(1, line, (size_t)n) != n) /* one write: processes share the pipe */
			failed = 1;
		slurm_free_job_info_msg(answer);
	}
	return failed;
}

int main(int argc, char **argv) {
	if (argc != 4) {
		fprintf(stderr, "ask JOB PROCESSES CALLS\n");
		return 2;
	}
	uint32_t job = (uint32_t)strtoul(argv[1], NULL, 10);
	int processes = atoi(argv[2]), failed = 0, status;
	slurm_init(NULL);
	for (int i = 0; i < processes; i++)
		if (fork() == 0)
			_exit(ask(job, atoi(argv[3])));
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}
