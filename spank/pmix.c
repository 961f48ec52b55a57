/* PMIx for tasks in a network namespace. Slurm's PMIx server lives in
 * slurmstepd and listens on the node's loopback, which a task in the job's
 * namespace has not: MPI programs would end in PMIx_Init, or run each by itself
 * and call that a success.
 *
 * So slurmstepd listens on the job's loopback, too, and relays. The namespace is
 * its job's alone, and so is what listens in it. Messages of MPI itself do not
 * come this way. */
#include "pmix.h"
#include "variables.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	CONNECTIONS_SPARE = 16, /* to those of one for each task */
	DESCRIPTORS_SPARE = 64,
	NAMES_MAX = 16, /* PMIX_SERVER_URI* are five in PMIx 4 and 5 */
	URI_MAX = 1024,
};

#define NAMESPACE "PMIX_NAMESPACE"
#define URI "PMIX_SERVER_URI"
#define LOOPBACK "://127.0.0.1:"

struct pmix_ports *pmix_share(void)
{
	struct pmix_ports *ports = mmap(NULL, sizeof(*ports), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (ports == MAP_FAILED) {
		slurm_error("gresnet: make a page that tasks share: %m");
		return NULL;
	}
	return ports;
}

/* next_fd is the next descriptor that the process has open, or -1. */
static int next_fd(DIR *fds)
{
	struct dirent *entry;

	while ((entry = readdir(fds))) {
		int fd = atoi(entry->d_name); /* 0 for the dots, too: never a listener of slurmstepd's */

		if (fd > 0 && fd != dirfd(fds))
			return fd;
	}
	return -1;
}

static DIR *open_fds(uint32_t job)
{
	DIR *fds = opendir("/proc/self/fd");

	if (!fds)
		slurm_error("gresnet: job %u: list open files: %m", job);
	return fds;
}

static bool listens(int fd)
{
	int on = 0;
	socklen_t length = sizeof(on);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &length) == 0 && on;
}

/* loopback_port is the port of a socket bound to 127.0.0.1, or 0. */
static in_port_t loopback_port(int fd)
{
	struct sockaddr_in address = {0};
	socklen_t length = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &length) == -1 || address.sin_family != AF_INET ||
	    address.sin_addr.s_addr != htonl(INADDR_LOOPBACK))
		return 0;
	return ntohs(address.sin_port);
}

/* find_server finds the one thing that listens on the loopback in slurmstepd,
 * whose own listeners are on Unix sockets and on 0.0.0.0. */
static int find_server(uint32_t job, in_port_t *port, size_t *open)
{
	int rc = -1;
	int fd;
	DIR *fds = open_fds(job);

	if (!fds)
		return -1;
	*port = 0;
	*open = 0;
	while ((fd = next_fd(fds)) != -1) {
		in_port_t found = listens(fd) ? loopback_port(fd) : 0;

		if (found && *port) {
			slurm_error("gresnet: job %u: find the PMIx server: ports %u and %u of 127.0.0.1 are both open; "
				    "hint: pmix=off in plugstack.conf turns the relay off [GN045]", job, *port, found);
			goto out;
		}
		if (found)
			*port = found;
		(*open)++;
	}
	rc = 0;
out:
	closedir(fds);
	return rc;
}

/* allow_files raises the soft limit of open files, if what slurmd was given
 * does not do. It is slurmstepd's: tasks have their user's, and exist by now. */
static int allow_files(uint32_t job, rlim_t files)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == -1) {
		slurm_error("gresnet: job %u: get the limit of open files: %m", job);
		return -1;
	}
	if (files <= limit.rlim_cur)
		return 0;
	if (files > limit.rlim_max) {
		slurm_error("gresnet: job %u: relay PMIx: slurmstepd may open %ju files and needs %ju; "
			    "hint: raise LimitNOFILE of slurmd [GN046]", job, (uintmax_t)limit.rlim_max, (uintmax_t)files);
		return -1;
	}
	limit.rlim_cur = files;
	if (setrlimit(RLIMIT_NOFILE, &limit) == -1) {
		slurm_error("gresnet: job %u: set the limit of open files: %m", job);
		return -1;
	}
	return 0;
}

/* start_relay relays the server and returns where in inside. open is how many files are. */
static struct relay *start_relay(const struct lease *lease, uint32_t tasks, in_port_t server, size_t open,
				 in_port_t *inside)
{
	size_t connections = (size_t)tasks + CONNECTIONS_SPARE;
	struct relay *relay;
	int listener;

	/* Two for each connection here, and one that the server accepts. */
	if (allow_files(lease->job, open + 3 * connections + DESCRIPTORS_SPARE))
		return NULL;
	listener = relay_listen(lease->netns, inside);
	if (listener == -1) {
		slurm_error("gresnet: job %u: listen for PMIx in the job's network namespace: %m", lease->job);
		return NULL;
	}
	relay = relay_start(listener, server, connections);
	if (!relay)
		slurm_error("gresnet: job %u: start the relay for PMIx: %m", lease->job);
	return relay;
}

struct relay *pmix_serve(const struct step *step, const char *state, pid_t slurmstepd, uint32_t tasks,
			 struct pmix_ports *ports)
{
	struct lease lease;
	enum holding holding;
	struct relay *relay = NULL;
	in_port_t server, inside = 0;
	size_t open;

	if (find_server(step->job, &server, &open)) {
		ports->failed = true;
		return NULL;
	}
	if (!server)
		return NULL;
	ports->server = server;
	holding = lease_open(&lease, state, step);
	if (holding == LEASE_HELD && lease_has_network(&lease) && getpid() != slurmstepd)
		slurm_error("gresnet: job %u: relay PMIx: this callback has a short-lived process of its own; "
			    "hint: take contain_spank out of SlurmdParameters, or set pmix=off in plugstack.conf [GN047]",
			    step->job);
	else if (holding == LEASE_HELD && lease_has_network(&lease))
		relay = start_relay(&lease, tasks, server, open, &inside);
	ports->relay = relay ? inside : 0;
	ports->failed = !relay && (holding == LEASE_BROKEN || (holding == LEASE_HELD && lease_has_network(&lease)));
	if (holding == LEASE_HELD)
		lease_close(&lease);
	return relay;
}

/* find_uris collects the names of the variables that say where the server
 * is: how many there are differs by version. */
static size_t find_uris(char **env, char names[NAMES_MAX][sizeof(URI) + 8])
{
	size_t n = 0;

	for (; env && *env && n < NAMES_MAX; env++) {
		size_t length = strcspn(*env, "=");

		if (strncmp(*env, URI, strlen(URI)) || length >= sizeof(names[0]) || (*env)[length] != '=')
			continue;
		memcpy(names[n], *env, length);
		names[n++][length] = '\0';
	}
	return n;
}

/* redirect_uri puts the relay's port in the place of the server's. A URI is
 * NAMESPACE.RANK;tcp4://127.0.0.1:PORT. What has another form or port is not
 * of this step's server: 0. */
static int redirect_uri(spank_t spank, const char *name, const struct pmix_ports *ports)
{
	char old[URI_MAX], new[URI_MAX + 8];
	char *at, *end;
	unsigned long port;

	if (spank_getenv(spank, name, old, sizeof(old)))
		return 0;
	at = strstr(old, LOOPBACK);
	if (!at)
		return 0;
	at += strlen(LOOPBACK);
	port = strtoul(at, &end, 10);
	if (end == at || port != ports->server)
		return 0;
	snprintf(new, sizeof(new), "%.*s%u%s", (int)(at - old), old, ports->relay, end);
	return spank_setenv(spank, name, new, 1) ? -1 : 1;
}

/* unset unsets the variable of a line NAME=VALUE of the environment. */
static int unset(spank_t spank, uint32_t job, char **env, const char *variable)
{
	char *name = strndup(variable, strcspn(variable, "="));
	int rc = -1;

	(void)env;
	if (name && !spank_unsetenv(spank, name))
		rc = 0;
	if (rc)
		slurm_error("gresnet: job %u: unset %s", job, name ? name : "a variable");
	free(name);
	return rc;
}

/* is_told tells a variable by which a PMIx client knows its server. */
static bool is_told(const char *variable)
{
	return !strncmp(variable, NAMESPACE "=", strlen(NAMESPACE "=")) || !strncmp(variable, URI, strlen(URI));
}

int pmix_forget(spank_t spank, uint32_t job)
{
	return variables_forget(spank, job, is_told, unset);
}

/* has_server tells whether Slurm has made the task a PMIx client: what the user had
 * set is forgotten. */
static bool has_server(spank_t spank)
{
	char name[URI_MAX];

	return spank_getenv(spank, NAMESPACE, name, sizeof(name)) != ESPANK_ENV_NOEXIST;
}

int pmix_redirect(spank_t spank, const struct step *step, const struct pmix_ports *ports)
{
	char names[NAMES_MAX][sizeof(URI) + 8];
	char **env = NULL;
	size_t n;
	int redirected = 0;

	if (ports->failed)
		return -1;
	if (!ports->relay) {
		if (!has_server(spank))
			return 0;
		slurm_error("gresnet: job %u: the PMIx server does not listen on 127.0.0.1, and so is not relayed; "
			    "hint: see PMIxEnv in mpi.conf, or set pmix=off in plugstack.conf [GN048]", step->job);
		return -1;
	}
	if (spank_get_item(spank, S_JOB_ENV, &env)) {
		slurm_error("gresnet: job %u: get the task's environment", step->job);
		return -1;
	}
	n = find_uris(env, names);
	for (size_t i = 0; i < n; i++) {
		int rc = redirect_uri(spank, names[i], ports);

		if (rc == -1) {
			slurm_error("gresnet: job %u: set %s", step->job, names[i]);
			return -1;
		}
		redirected += rc;
	}
	if (!redirected) {
		slurm_error("gresnet: job %u: no " URI " names the PMIx server's port %u", step->job, ports->server);
		return -1;
	}
	return 0;
}

int pmix_close_listeners(uint32_t job)
{
	int rc = -1;
	int fd;
	DIR *fds = open_fds(job);

	if (!fds)
		return -1;
	while ((fd = next_fd(fds)) != -1) {
		if (listens(fd) && fcntl(fd, F_SETFD, FD_CLOEXEC) == -1) {
			slurm_error("gresnet: job %u: close listener %d on exec: %m", job, fd);
			goto out;
		}
	}
	rc = 0;
out:
	closedir(fds);
	return rc;
}
