package lease

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gresnet/lib/link/sysctl"
	dir "gresnet/lib/state"
	"gresnet/test/netnstest"
)

func TestTheNodesNetworkSettingsHoldInTheJob(t *testing.T) {
	node, state := testBed(t)
	t.Setenv("GRESNET_BED_NOTICES", "1")
	ports := make([]string, 0, 400)
	for n := range 400 {
		ports = append(ports, fmt.Sprint(20000+2*n))
	}
	node.Run(`sysctl -qw net.core.somaxconn=7777 net.ipv4.ip_local_port_range="20000 40000" net.ipv4.tcp_keepalive_time=77 net.ipv4.tcp_mtu_probing=1 net.ipv4.ping_group_range="0 4711"
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.ip_local_reserved_ports=` + strings.Join(ports, ","))
	note := dir.Dir(state).Settings()
	for _, now := range []struct {
		name   string
		change func() error
	}{
		{"at first", func() error { return nil }},
		{"by the note", func() error {
			node.Run("sysctl -qw net.core.somaxconn=4096 net.ipv4.tcp_keepalive_time=88")
			return nil
		}},
		{"with a damaged note", func() error { return os.WriteFile(note, []byte("core/somaxconn=1\n"), 0o600) }},
		{"without a note", func() error { return os.Remove(note) }},
		{"after a boot", func() error {
			return os.WriteFile(note, []byte(sysctl.Fresh{Keys: []string{"core/somaxconn"}, Values: sysctl.Values{"core/somaxconn": "4096"}}.String()), 0o600)
		}},
	} {
		if err := now.change(); err != nil {
			t.Fatal(err)
		}
		theNodesSettingsHold(t, node, state, now.name)
		if text, err := os.ReadFile(note); err != nil || !strings.Contains(string(text), "ipv4/tcp_keepalive_time=7200\n") {
			t.Errorf("%s: the note is %q, %v", now.name, text, err)
		}
	}
}

func theNodesSettingsHold(t *testing.T, node *netnstest.NS, state, when string) {
	t.Helper()
	out, err := whole.command(node, state, "prolog", never).CombinedOutput()
	if err != nil || strings.Contains(string(out), "settings") {
		t.Errorf("%s: %v: %s", when, err, out)
	}
	const all = "cd /proc/sys/net; cat core/somaxconn ipv4/ip_local_port_range ipv4/tcp_keepalive_time ipv4/tcp_mtu_probing ipv4/ping_group_range ipv4/ip_local_reserved_ports"
	if got, want := inLease(node, state, all), node.Run(all); got != want {
		t.Errorf("%s: the job has\n%s, the node\n%s", when, got, want)
	}
	if got := strings.TrimSpace(inLease(node, state, "cat /proc/sys/net/ipv4/ip_forward")); got != "0" {
		t.Errorf("%s: the job forwards: %s", when, got)
	}
	testRun(t, node, state, "epilog", never)
}
