/* X11: with srun --x11, the slurmstepd of the job's extern step listens on the
 * node's loopback, where a task in the job's network does not reach it. So each
 * step's slurmstepd listens at the same port of the job's loopback, and relays.
 * The steps of a job share that port (SO_REUSEPORT): the display stays as long
 * as any of them runs.
 *
 * A user can name another port of these by DISPLAY. The job then reaches what a
 * job without gresnet reaches there: displays, which ask who calls for a cookie. */
#include "x11.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	/* Of Slurm's listeners (slurmstepd/x11_forwarding.c:setup_x11_forward). */
	DISPLAY_FIRST = 20,
	DISPLAY_LAST = 99,
	DISPLAY_PORT = 6000, /* of display 0 */
	CONNECTIONS = 64,
};

/* display_port is the port of the display that Slurm has set for the step, or 0. */
static in_port_t display_port(spank_t spank)
{
	static const char host[] = "localhost:";
	char display[64];
	char *end;
	unsigned long number;

	if (spank_getenv(spank, "DISPLAY", display, sizeof(display)) || strncmp(display, host, strlen(host)))
		return 0;
	number = strtoul(display + strlen(host), &end, 10);
	if (*end != '.' || number < DISPLAY_FIRST || number > DISPLAY_LAST)
		return 0;
	return (in_port_t)(DISPLAY_PORT + number);
}

static struct relay *start(const struct lease *lease, in_port_t port)
{
	in_port_t inside = port;
	struct relay *relay;
	int listener = relay_listen(lease->netns, &inside);

	if (listener == -1) {
		slurm_error("gresnet: job %u: listen for X11 in the job's network namespace: %m", lease->job);
		return NULL;
	}
	relay = relay_start(listener, port, CONNECTIONS);
	if (!relay)
		slurm_error("gresnet: job %u: start the relay for X11: %m", lease->job);
	return relay;
}

struct relay *x11_serve(spank_t spank, const struct step *step, const char *state, pid_t slurmstepd)
{
	struct lease lease;
	struct relay *relay = NULL;
	in_port_t port = display_port(spank);

	/* With contain_spank this callback has a short-lived process of its own. */
	if (!port || getpid() != slurmstepd || lease_open(&lease, state, step) != LEASE_HELD)
		return NULL;
	if (lease_has_network(&lease))
		relay = start(&lease, port);
	lease_close(&lease);
	return relay;
}
