#ifndef GRESNET_RELAY_H
#define GRESNET_RELAY_H

#include <netinet/in.h>
#include <stddef.h>

struct relay;

/* relay_listen makes a listener on a port of 127.0.0.1 in another network
 * namespace; the caller stays in its own. If port is 0, it takes a free one and says which;
 * else root's other listeners may share it. It returns -1 with errno set if it cannot. */
int relay_listen(int netns, in_port_t *port);

/* relay_start continues each connection that listener accepts to 127.0.0.1:port
 * of the network namespace that the caller is in, as many at a time as most, by
 * a thread of its own. It takes listener, which must not block, and closes it
 * in any case. It returns NULL with errno set if it cannot. */
struct relay *relay_start(int listener, in_port_t port, size_t most);

/* relay_stop ends the thread and closes everything. NULL is no relay. */
void relay_stop(struct relay *relay);

#endif
