/* A relay of TCP connections between two network namespaces: sockets stay in
 * the one that they were made in, whoever reads and writes them.
 *
 * One thread serves all connections and waits in poll(2) only. A connection
 * that is not read holds up its own buffer and nothing else; one too many waits
 * in the listener's queue. So memory is bounded, by what relay_start is told. */
#include "relay.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	FLOW_SIZE = 16384,
	PAUSE_MS = 100, /* after a failure to accept that may pass */
};

/* One direction of a connection. */
struct flow {
	size_t from, to; /* what of bytes waits to be sent */
	bool ended;      /* the sender has closed its half */
	bool shut;       /* the receiver was told so */
	char bytes[FLOW_SIZE];
};

/* A connection. flow[i] goes from end[i] to end[!i]. */
struct pair {
	int end[2]; /* the one accepted, the one made */
	struct flow flow[2];
};

struct relay {
	pthread_t thread;
	int stop; /* an eventfd */
	int listener;
	in_port_t port;
	bool paused;
	size_t most, pairs;
	struct pair **pair;   /* most of them */
	struct pollfd *polls; /* of stop, listener, and the ends of each pair */
};

enum { POLL_STOP, POLL_LISTENER, POLL_PAIRS };

/* start_thread has the thread block all signals: they are slurmstepd's. It
 * returns an error number, as all of pthreads(7) does. */
static int start_thread(pthread_t *thread, void *(*function)(void *), void *argument)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	error = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (error)
		return error;
	error = pthread_create(thread, NULL, function, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

/* What listen_inside is given and gives: with port 0 it takes a free one. */
struct inside {
	int netns;
	int listener;
	in_port_t port;
	int error;
};

/* listen_inside makes a listener in another network namespace, in a thread that
 * ends there: setns(2) is for one thread, and slurmstepd's others stay. */
static void *listen_inside(void *argument)
{
	struct inside *inside = argument;
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(inside->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	const int shared = inside->port != 0;
	int fd = -1;

	if (setns(inside->netns, CLONE_NEWNET) == -1)
		goto fail;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd == -1)
		goto fail;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shared, sizeof(shared)) == -1 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) == -1 || listen(fd, SOMAXCONN) == -1 ||
	    getsockname(fd, (struct sockaddr *)&address, &length) == -1)
		goto fail;
	inside->port = ntohs(address.sin_port);
	inside->listener = fd;
	return NULL;
fail:
	inside->error = errno;
	if (fd != -1)
		close(fd);
	return NULL;
}

int relay_listen(int netns, in_port_t *port)
{
	struct inside inside = {.netns = netns, .listener = -1, .port = *port};
	pthread_t thread;
	int error = start_thread(&thread, listen_inside, &inside);

	if (!error)
		error = pthread_join(thread, NULL);
	errno = error ? error : inside.error;
	*port = inside.port;
	return inside.listener;
}

static void close_pair(struct pair *pair)
{
	close(pair->end[0]);
	close(pair->end[1]);
	free(pair);
}

/* connect_server begins a connection. A failure of it comes up in recv. */
static int connect_server(in_port_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd == -1)
		return -1;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == -1 && errno != EINPROGRESS) {
		close(fd);
		return -1;
	}
	return fd;
}

/* add takes a connection that was accepted. */
static void add(struct relay *relay, int accepted)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	int made = pair ? connect_server(relay->port) : -1;

	if (made == -1) {
		slurm_error("gresnet: relay a connection: %m");
		free(pair);
		close(accepted);
		return;
	}
	pair->end[0] = accepted;
	pair->end[1] = made;
	relay->pair[relay->pairs++] = pair;
}

/* accept_next leaves what has no descriptor or memory in the queue for a while:
 * a listener that stays readable would keep the thread spinning. */
static void accept_next(struct relay *relay)
{
	int fd = accept4(relay->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd != -1) {
		add(relay, fd);
		return;
	}
	relay->paused = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
}

static bool transient(void)
{
	return errno == EAGAIN || errno == EINTR;
}

/* move carries on what it can of one direction. It returns false if the
 * connection is broken. */
static bool move(struct flow *flow, int from, int to)
{
	if (!flow->ended && flow->to < FLOW_SIZE) {
		ssize_t n = recv(from, flow->bytes + flow->to, FLOW_SIZE - flow->to, 0);

		if (n == -1 && !transient())
			return false;
		flow->ended = n == 0;
		flow->to += n > 0 ? (size_t)n : 0;
	}
	if (flow->from < flow->to) {
		ssize_t n = send(to, flow->bytes + flow->from, flow->to - flow->from, MSG_NOSIGNAL);

		if (n == -1 && !transient())
			return false;
		flow->from += n > 0 ? (size_t)n : 0;
	}
	if (flow->from == flow->to) {
		flow->from = flow->to = 0;
		if (flow->ended && !flow->shut) {
			shutdown(to, SHUT_WR);
			flow->shut = true;
		}
	}
	return true;
}

/* serve returns false if the connection is over. */
static bool serve(struct pair *pair)
{
	return move(&pair->flow[0], pair->end[0], pair->end[1]) &&
	       move(&pair->flow[1], pair->end[1], pair->end[0]) &&
	       !(pair->flow[0].shut && pair->flow[1].shut);
}

/* interest is what to wait for at one end. An end of which nothing is wanted is
 * left out altogether: poll(2) would report its hang-up again and again. */
static struct pollfd interest(const struct pair *pair, int end)
{
	const struct flow *in = &pair->flow[end], *out = &pair->flow[!end];
	short events = 0;

	if (!in->ended && in->to < FLOW_SIZE)
		events |= POLLIN;
	if (out->from < out->to)
		events |= POLLOUT;
	return (struct pollfd){.fd = events ? pair->end[end] : -1, .events = events};
}

/* wait_for fills polls. It returns false if the relay is to end. */
static bool wait_for(struct relay *relay)
{
	bool more = relay->pairs < relay->most && !relay->paused;
	size_t n = POLL_PAIRS;

	relay->polls[POLL_STOP] = (struct pollfd){.fd = relay->stop, .events = POLLIN};
	relay->polls[POLL_LISTENER] = (struct pollfd){.fd = more ? relay->listener : -1, .events = POLLIN};
	for (size_t i = 0; i < relay->pairs; i++) {
		relay->polls[n++] = interest(relay->pair[i], 0);
		relay->polls[n++] = interest(relay->pair[i], 1);
	}
	if (poll(relay->polls, n, relay->paused ? PAUSE_MS : -1) == -1) {
		for (size_t i = 0; i < n; i++)
			relay->polls[i].revents = 0;
		return errno == EINTR;
	}
	relay->paused = false;
	return !relay->polls[POLL_STOP].revents;
}

static void *run(void *argument)
{
	struct relay *relay = argument;

	while (wait_for(relay)) {
		/* from behind: the last one takes the place of one that is over */
		for (size_t i = relay->pairs; i-- > 0;) {
			const struct pollfd *polls = &relay->polls[POLL_PAIRS + 2 * i];

			if ((polls[0].revents || polls[1].revents) && !serve(relay->pair[i])) {
				close_pair(relay->pair[i]);
				relay->pair[i] = relay->pair[--relay->pairs];
			}
		}
		if (relay->polls[POLL_LISTENER].revents)
			accept_next(relay);
	}
	return NULL;
}

static void drop(struct relay *relay)
{
	while (relay->pairs > 0)
		close_pair(relay->pair[--relay->pairs]);
	close(relay->listener);
	if (relay->stop != -1)
		close(relay->stop);
	free(relay->polls);
	free(relay->pair);
	free(relay);
}

struct relay *relay_start(int listener, in_port_t port, size_t most)
{
	int error = ENOMEM;
	struct relay *relay = calloc(1, sizeof(*relay));

	if (!relay) {
		close(listener);
		errno = error;
		return NULL;
	}
	relay->listener = listener;
	relay->port = port;
	relay->most = most;
	relay->pair = calloc(most, sizeof(struct pair *));
	relay->polls = calloc(POLL_PAIRS + 2 * most, sizeof(struct pollfd));
	relay->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (relay->stop == -1)
		error = errno;
	if (relay->pair && relay->polls && relay->stop != -1)
		error = start_thread(&relay->thread, run, relay);
	if (error) {
		drop(relay);
		errno = error;
		return NULL;
	}
	return relay;
}

void relay_stop(struct relay *relay)
{
	if (!relay)
		return;
	/* this cannot fail: the eventfd's counter is 0 */
	if (eventfd_write(relay->stop, 1) == 0 && pthread_join(relay->thread, NULL) == 0)
		drop(relay);
}
