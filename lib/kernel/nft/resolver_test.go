package nft_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"gresnet/lib/base/account"
	"gresnet/lib/kernel/nft"
	"gresnet/test/netnstest"
)

// resolve runs Debian's dnsmasq, under its own user, as the node's resolver. One user asks as much as fills a
// user's share, of a server that does not answer, and then another user asks once.
const resolve = `python3 -c '
import os, select, socket, struct, subprocess, sys, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 5353))
resolver = subprocess.Popen(["dnsmasq", "--keep-in-foreground", "--user=dnsmasq", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--pid-file",
	"--cache-size=0", "--server=127.0.0.1#5353", "--listen-address=127.0.0.53", "--bind-interfaces"], stderr=subprocess.DEVNULL)
def query(n, name):
	return struct.pack(">6H", n, 0x100, 1, 0, 0, 0) + bytes([len(name)]) + name + bytes([0, 0, 1, 0, 1])
def ask(user, names):
	if os.fork():
		return
	os.setgroups([])
	os.setuid(user)
	s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
	for n, name in enumerate(names):
		s.sendto(query(n, name), ("127.0.0.53", 53))
	os._exit(0)
def has(name, of, wait=30):
	seen = set()
	while select.select([server], [], [], wait)[0]:
		question = server.recv(512)
		seen.add(question[13:13 + question[12]])
		if name in seen or len(seen) == of:
			break
	return seen
first = set()
for _ in range(300): # until it listens
	ask(0, [b"first"])
	if first := has(b"first", 1, 0.1):
		break
ask(1001, [b"a%d" % n for n in range(40)])
asked = has(b"none", 40, 3)
ask(1002, [b"other"])
print("first" if first else "-", "other" if b"other" in has(b"other", 99, PATIENCE) else "-")
resolver.kill()
' 2>&1`

func TestAUsersQuestionsToARealResolverKeepItFromNobodyElses(t *testing.T) {
	netnstest.Slow(t)
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to make network namespaces")
	}
	if out, err := exec.Command("../../../test/need", "dnsmasq-base", "python3").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	users, err := account.Read(os.DirFS("/etc"))
	if err != nil {
		t.Fatal(err)
	}
	everybody := account.Users{Own: []account.Range{{First: 1, Last: 65533}}} // as if dnsmasq's were one
	for _, c := range []struct {
		who  string
		of   account.Users
		want string
		wait string // who does not answer never will
	}{{"this machine's users", users, "first other", "30"}, {"all but root", everybody, "first -", "3"}} {
		ns := netnstest.New(t)
		leadOut(t, ns, 1000, nft.Users{Most: 9, Users: c.of})
		if got := strings.TrimSpace(ns.Run(strings.ReplaceAll(resolve, "PATIENCE", c.wait))); got != c.want {
			t.Errorf("where %s are counted: %q, wanted %q", c.who, got, c.want)
		}
	}
}
