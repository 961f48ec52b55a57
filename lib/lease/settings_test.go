package lease

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheNodesNetworkSettingsHoldInTheJob(t *testing.T) {
	node, state := lawBed(t)
	t.Setenv("GRESNET_LAW_NOTICES", "1")
	ports := make([]string, 0, 400)
	for n := range 400 {
		ports = append(ports, fmt.Sprint(20000+2*n))
	}
	node.Run(`sysctl -qw net.core.somaxconn=7777 net.ipv4.ip_local_port_range="20000 40000" net.ipv4.tcp_keepalive_time=77 net.ipv4.tcp_mtu_probing=1 net.ipv4.ping_group_range="0 4711"
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.ip_local_reserved_ports=` + strings.Join(ports, ","))
	out, err := whole.command(node, state, "prolog", never).CombinedOutput()
	if err != nil || strings.Contains(string(out), "settings") {
		t.Errorf("%v: %s", err, out)
	}
	const all = "cd /proc/sys/net; cat core/somaxconn ipv4/ip_local_port_range ipv4/tcp_keepalive_time ipv4/tcp_mtu_probing ipv4/ping_group_range ipv4/ip_local_reserved_ports"
	if got, want := inLease(node, state, all), node.Run(all); got != want {
		t.Errorf("the job has\n%s, the node\n%s", got, want)
	}
	if got := strings.TrimSpace(inLease(node, state, "cat /proc/sys/net/ipv4/ip_forward")); got != "0" {
		t.Errorf("the job forwards: %s", got)
	}
	lawRun(t, node, state, "epilog", never)
}
