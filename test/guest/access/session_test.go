package access

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"gresnet/test/guest/vm"
)

// sshd has its configuration here, alice, bob and root one key, and nobody a password.
const sshd = `
mkdir -p /run/sshd /run/ssh
ssh-keygen -q -t ed25519 -N '' -f /run/ssh/key <<<y >/dev/null
cat >/run/ssh/config <<C
ListenAddress 192.0.2.1:22
PidFile /run/ssh/sshd.pid
AuthorizedKeysFile /run/ssh/key.pub
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
UsePAM yes
UseDNS no
LogLevel VERBOSE
AcceptEnv NCCL_IB_HCA
LoginGraceTime 0
C
cat >/etc/pam.d/sshd <<C
auth     required pam_unix.so
account  required pam_unix.so
account  required pam_slurm_adopt.so
session  required pam_unix.so
session  required /usr/local/lib/gresnet/pam_gresnet.so
C
/usr/sbin/sshd -f /run/ssh/config -E /run/ssh/log
`

// hasSSH starts sshd for the time of a test. It returns what syslog has been told since.
func hasSSH(t *testing.T) (said func() string) {
	t.Helper()
	vm.Slurm(t)
	said = syslog(t)
	vm.Run(t, sshd)
	t.Cleanup(func() {
		vm.Run(t, "kill $(cat /run/ssh/sshd.pid); while [ -e /run/ssh/sshd.pid ]; do sleep 0.1; done")
		if t.Failed() {
			log, _ := os.ReadFile("/run/ssh/log")
			t.Logf("sshd says\n%s\nsyslog has\n%s", log, said())
		}
	})
	return said
}

// syslog stands in the place of the daemon that the VM does not have.
func syslog(t *testing.T) (said func() string) {
	t.Helper()
	os.Remove("/dev/log")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "/dev/log", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		socket.Close()
		os.Remove("/dev/log")
	})
	var lock sync.Mutex
	var all strings.Builder
	go func() {
		line := make([]byte, 16384)
		for {
			n, err := socket.Read(line)
			if err != nil {
				return
			}
			lock.Lock()
			fmt.Fprintf(&all, "%s\n", line[:n])
			lock.Unlock()
		}
	}()
	return func() string {
		lock.Lock()
		defer lock.Unlock()
		return all.String()
	}
}

// ssh returns the command that opens a session of a user's.
func ssh(user, more string) string {
	return vm.Timeout + "ssh -n -i /run/ssh/key -o LogLevel=ERROR -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes " + user + "@192.0.2.1 " + more
}

// sessionsEnd waits until sshd has no session any more: its monitors end last.
func sessionsEnd(t *testing.T) {
	t.Helper()
	vm.Eventually(t, "every session has ended", func() bool {
		out, _ := vm.Try("pgrep -P $(cat /run/ssh/sshd.pid)")
		return out == ""
	})
}

// seen is what a process finds of its node.
const seen = `
readlink /proc/self/ns/net /proc/self/ns/mnt
ls /sys/class/infiniband /sys/class/net
stat -c '%n %t:%T %a %U' /dev/infiniband/*
rdma link | sed 's/ state.*//'
ip -o addr
env | grep -E '^(GRESNET|NCCL|UCX|GLOO|TP|MELLANOX)_' | sort
`

func TestASessionOfSSHIsInItsJobAsATaskIs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.WithConfig(t, exportAll)
	hasSSH(t)
	before := vm.Picture(t)
	const served = "served inside"
	vm.Run(t, "rm -rf /tmp/seen /tmp/served; install -d -m 777 /tmp/served; echo '"+served+"' >/tmp/served/index.html")
	job := vm.Submit(t, "alice", "--gres=nic:1", "srun bash -c "+vm.Quote("("+seen+") >/tmp/seen; cd /tmp/served; exec python3 -m http.server --bind 127.0.0.1 8123"))
	vm.Eventually(t, "the step listens", func() bool {
		_, err := vm.Try("nsenter --net=/run/gresnet/jobs/" + job + "/netns ss -ltn | grep -q ' 127.0.0.1:8123 '")
		return err == nil
	})

	step := vm.Run(t, "cat /tmp/seen")
	if out := vm.Run(t, ssh("alice", vm.Quote(seen))); out != step || !strings.Contains(out, "NCCL_IB_HCA=") || strings.Contains(out, "roce1") {
		t.Errorf("a session finds\n%s\nthe step finds\n%s", out, step)
	}
	// A session with a terminal: sshd's monitor gives it one, and takes it back, inside. What the client sends is
	// less than what the lease says.
	out := vm.Run(t, ssh("alice", "-tt -o SetEnv=NCCL_IB_HCA=mine "+vm.Quote(vm.WhereAmI+"; tty; env | grep ^NCCL_IB_HCA=")))
	for _, want := range []string{strings.SplitN(step, "\n", 2)[0], "/dev/pts/", "NCCL_IB_HCA=="} {
		if !strings.Contains(out, want) {
			t.Errorf("a session with a terminal does not say %s: %s", want, out)
		}
	}
	sessionsEnd(t)
	if log := vm.Run(t, "cat /run/ssh/log; lastlog -u alice"); !strings.Contains(log, "pts/") || strings.Contains(log, "fatal") || strings.Contains(log, "error:") {
		t.Errorf("sshd is not at ease:\n%s", log)
	}

	// What a session forwards reaches a port of the job's, and listens in the job.
	if out := vm.Run(t, "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | "+strings.Replace(ssh("alice", ""), "ssh -n", "ssh -W 127.0.0.1:8123", 1)); !strings.Contains(out, served) {
		t.Errorf("-W to a port in the job: %s", out)
	}
	forward := vm.Run(t, strings.Replace(ssh("alice", ""), "ssh -n", "ssh -n -f -N -M -S /run/ssh/master -L 127.0.0.1:8124:127.0.0.1:8123", 1)+">/dev/null 2>&1; exec 3<>/dev/tcp/127.0.0.1/8124; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3")
	if !strings.Contains(forward, served) {
		t.Errorf("-L to a port in the job: %s", forward)
	}
	if out := vm.Run(t, strings.Replace(ssh("alice", vm.Quote("exec 3<>/dev/tcp/127.0.0.1/8125; head -c 4 <&3")), "ssh -n", "ssh -n -R 127.0.0.1:8125:192.0.2.1:22", 1)); out != "SSH-" {
		t.Errorf("-R from a port in the job: %s", out)
	}
	if out, err := vm.Try("exec 3<>/dev/tcp/127.0.0.1/8123"); err == nil {
		t.Errorf("the job's port is the node's, too: %s", out)
	}
	// The session of -L is there still: it ends with the job.
	vm.Run(t, "ssh -S /run/ssh/master -O check x 2>&1")
	vm.Cancel(t, job)
	sessionsEnd(t)
	vm.Same(t, before)
}

// The guard learns the job's cgroup of whoever enters first.
func TestASessionOfSSHOpensItsHCAWhereNoStepHasRun(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	vm.WithConfig(t, vm.Guarded)
	hasSSH(t)
	probe := vm.ProbeProgram(t)
	before := vm.Picture(t)
	job := vm.Submit(t, "alice", "--gres=nic:1", "sleep 1000")
	vm.Eventually(t, "the script runs", func() bool { _, err := vm.Try("pgrep -u alice -xf 'sleep 1000'"); return err == nil })
	if out := vm.Run(t, ssh("alice", vm.Quote("GRESNET_PROBE=/dev/infiniband "+probe))); strings.Count(out, ": context") != 1 {
		t.Errorf("a session opens: %s", out)
	}
	sessionsEnd(t)
	vm.Cancel(t, job)
	vm.Same(t, before)
}

func TestASessionOfSSHWhoseLeaseIsBrokenFailsWithTheReason(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	said := hasSSH(t)
	before := vm.Picture(t)
	job := vm.Submit(t, "alice", "--gres=nic:1", "sleep 1000")
	vm.Eventually(t, "the script runs", func() bool { _, err := vm.Try("pgrep -u alice -xf 'sleep 1000'"); return err == nil })
	inLease := "cd /run/gresnet/jobs/" + job + "; "
	for _, c := range []struct{ spoil, fix, reason string }{
		{"mv env away", "mv away env", "job " + job + ": the lease is not complete"},
		{"sed -i.away s/^GRESNET_UID=.*/GRESNET_UID=1001/ env", "mv env.away env", "the lease is not this job's"},
		{"sed -i.away '5s/.*/GRESNET_REFUSED=the reason/' env", "mv env.away env", "refused: the reason"},
		// Half way inside: what the process has entered by then, the user must not have.
		{"umount dev", "true", "nothing is mounted at dev"},
	} {
		vm.Run(t, inLease+c.spoil)
		out, err := vm.Try(ssh("alice", "echo has run") + " 2>&1")
		if err == nil || !strings.Contains(out, "gresnet: ") || !strings.Contains(out, c.reason) || strings.Contains(out, "has run") {
			t.Errorf("a session, %s: %v\n%s", c.reason, err, out)
		}
		if !strings.Contains(said(), c.reason) {
			t.Errorf("syslog does not have %q", c.reason)
		}
		// A connection that only forwards has no shell that could fail.
		for _, to := range []string{"192.0.2.1:22", "127.0.0.1:22"} {
			out, err = vm.Try(strings.Replace(ssh("alice", ""), "ssh -n", "ssh -n -W "+to, 1) + " 2>&1")
			if err == nil || strings.Contains(out, "SSH-") {
				t.Errorf("-W %s, %s: %v\n%s", to, c.reason, err, out)
			}
		}
		vm.Run(t, inLease+c.fix)
	}
	sessionsEnd(t)
	vm.Cancel(t, job)
	vm.Same(t, before)
}

func TestSessionsOfSSHThatAreInNoJobWithALeaseStayOnTheNode(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	said := hasSSH(t)
	before := vm.Picture(t)
	job := vm.Submit(t, "alice", "--gres=nic:1", "sleep 1000")
	other := vm.Submit(t, "bob", "", "sleep 2000")
	vm.Eventually(t, "the scripts run", func() bool {
		_, err := vm.Try("pgrep -u alice -xf 'sleep 1000' && pgrep -u bob -xf 'sleep 2000'")
		return err == nil
	})
	const where = "readlink /proc/self/ns/net; env | grep ^GRESNET_ || true"
	node := vm.Run(t, "readlink /proc/self/ns/net")
	for _, user := range []string{"root", "bob"} {
		if out := vm.Run(t, ssh(user, vm.Quote(where))); out != node {
			t.Errorf("%s is in %s, not on the node, %s", user, out, node)
		}
	}
	vm.Cancel(t, other)
	if out, err := vm.Try(ssh("bob", "echo has run") + " 2>&1"); err == nil || strings.Contains(out, "has run") || !strings.Contains(said(), "Access denied by pam_slurm_adopt") {
		t.Errorf("bob, who has no job: %v\n%s", err, out)
	}
	if out := vm.Run(t, ssh("alice", vm.Quote(where))); strings.Contains(out, strings.TrimSpace(node)) || !strings.Contains(out, "GRESNET_JOB="+job+"\n") {
		t.Errorf("alice is in %s", out)
	}
	sessionsEnd(t)
	vm.Cancel(t, job)
	vm.Same(t, before)
}
