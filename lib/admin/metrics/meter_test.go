package metrics

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/state"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
	"gresnet/test/await"
	"gresnet/test/netnstest"
)

const theJob = 4711

// part is the slot of an HCA that the job has.
var part = node.ID{GUID: "0002:c903:00ab:0000", PCI: "0000:3b:00.0", Slot: "2"}

// leased returns a node with a lease whose namespace has one end of a veth pair, as the interface of a part.
// The other end, outside, goes when the namespace ends.
func leased(t *testing.T) (n *host.Host, child *step.Child, outside *netnstest.NS) {
	t.Helper()
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to make network namespaces")
	}
	n = &host.Host{State: state.Dir(t.TempDir()), Sys: sysfs.At("/sys"), Now: time.Now}
	if err := n.State.Make(); err != nil {
		t.Fatal(err)
	}
	err := n.Table().Update(t.Context(), func(all *table.Table) error {
		all.HCAs = append(all.HCAs, node.HCA{ID: part.Whole(), Name: "mlx5_0"})
		all.Claims = append(all.Claims, table.Claim{HCA: part, Name: "mlx5_0", Job: theJob, Run: "0", UID: 65534, Since: time.Now()})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := n.State.Lease(theJob)
	if err := os.Mkdir(string(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	ns, err := netns.Create(dir.Netns())
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	t.Cleanup(func() { state.Unmount(dir.Netns()) })
	outside = netnstest.New(t)
	outside.IP("link add outside type veth peer name inside netns " + dir.Netns())
	outside.IP("link set outside up")
	child = &step.Child{Of: part, Name: "inside", Type: "macvlan"}
	err = ns.Do(func() error {
		sys, err := sysfs.Mount()
		if err != nil {
			return err
		}
		defer sys.Close()
		text, err := sys.ReadFile("class/net/inside/ifindex")
		fmt.Sscan(string(text), &child.Index)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	writeJournal(t, dir, child)
	if err := os.WriteFile(dir.Env(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return n, child, outside
}

// writeJournal writes the lease's journal.
func writeJournal(t *testing.T, dir state.Lease, steps ...step.Step) {
	t.Helper()
	if err := state.Remove(dir.Journal()); err != nil {
		t.Fatal(err)
	}
	undoLog, err := journal.Create(dir.Journal(), journal.Header{Job: theJob, Run: "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer undoLog.Close()
	for _, s := range steps {
		if err := undoLog.Add(s.Kind(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// sent has the other end send something.
func sent(t *testing.T, outside *netnstest.NS, dir state.Lease) {
	t.Helper()
	outside.Run("nsenter --net=" + dir.Netns() + " ip link set inside up; ip addr add 192.0.2.1/24 dev outside; bash -c 'echo >/dev/udp/192.0.2.2/9'")
}

func TestAPartsInterfaceIsReadInItsJob(t *testing.T) {
	n, child, outside := leased(t)
	dir := n.State.Lease(theJob)
	sent(t, outside, dir)
	var found Found
	for end := time.Now().Add(await.Most(t)); ; time.Sleep(time.Millisecond) {
		var err error
		if found, err = ReadRunning(n); err != nil || len(found.HCAs) != 1 || found.Unread != 0 || found.HCAs[0].IP == nil {
			t.Fatalf("%+v, %v", found, err)
		}
		if found.HCAs[0].IP.ReceivedBytes > 0 || time.Now().After(end) {
			break
		}
	}
	h := found.HCAs[0]
	if h.Job != theJob || h.UID != 65534 || h.Device != "mlx5_0" || h.IP.Interface != "inside" || h.IP.ReceivedBytes == 0 {
		t.Errorf("%+v, %+v", h, h.IP)
	}
	page, err := found.Page(found.Names(t.Context()))
	want := fmt.Sprintf("%s{jobid=\"4711\",user=\"nobody\",device=\"mlx5_0\",interface=\"inside\"} %d\n", RunningIPReceivedBytes, h.IP.ReceivedBytes)
	if err != nil || !strings.Contains(string(page.Text()), want) {
		t.Errorf("%v: the page lacks %s\n%s", err, want, page.Text())
	}

	none := func(why string) {
		t.Helper()
		if found, err := ReadRunning(n); err != nil || len(found.HCAs) != 0 {
			t.Errorf("%s: %+v, %v", why, found, err)
		}
	}
	other := *child
	other.Index++
	writeJournal(t, dir, &other)
	none("the interface is another of that name")
	writeJournal(t, dir, child)
	if err := os.Remove(dir.Env()); err != nil {
		t.Fatal(err)
	}
	none("an epilog has begun")
}

// A look is in the job's namespace, and has its /sys open long after it has left that.
func TestTheNamespaceEndsThoughALookHasItsSysOpen(t *testing.T) {
	n, _, outside := leased(t)
	table, err := n.Table().Read()
	if err != nil {
		t.Fatal(err)
	}
	known := scan.NewKnown()
	host, err := scan.Open(n.Sys, known)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	l := look{node: n, known: known, host: host}
	if err := l.lookAt(theJob, &table); err != nil {
		t.Fatal(err)
	}
	if len(l.sys) != 1 {
		t.Fatalf("it has %d", len(l.sys))
	}
	defer l.sys[0].Close()
	if err := state.Unmount(n.State.Lease(theJob).Netns()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(await.Most(t)); strings.Contains(outside.IP("-br link"), "outside"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the namespace lives on: its end of the pair is there")
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(filepath.Dir(l.sys[0].Folder("x")))); err != nil || len(entries) == 0 {
		t.Errorf("its /sys is not open: %v", err)
	}
}

// device lays out an RDMA device's folder with one counter, and returns it as one that a job has.
func device(t *testing.T, name string, value string) *asked {
	t.Helper()
	folder := filepath.Join(t.TempDir(), name)
	path := filepath.Join(folder, "ports/1/hw_counters/rx")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	if value == "" { // its opening waits for one who writes
		err = syscall.Mkfifo(path, 0o600)
	} else {
		err = os.WriteFile(path, []byte(value), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	a := &asked{id: node.ID{GUID: name}, folder: folder, before: []counters.Port{{Num: 1, Hardware: map[string]uint64{"rx": 5}}}}
	a.Job, a.Device = theJob, name
	return a
}

func TestAnHCAThatDoesNotAnswerCostsItselfAloneAndLaterLooksPassOverIt(t *testing.T) {
	n := &host.Host{State: state.Dir(t.TempDir())}
	if err := n.State.Make(); err != nil {
		t.Fatal(err)
	}
	look := func(stuck *asked) {
		t.Helper()
		l := look{node: n, asked: []*asked{stuck, device(t, "quick", "12")}}
		if err := l.readAll(); err != nil {
			t.Fatal(err)
		}
		if len(l.found.HCAs) != 1 || l.found.HCAs[0].Device != "quick" || l.found.HCAs[0].Ports[0].Hardware["rx"] != 7 || l.found.Unread != 1 {
			t.Errorf("%+v", l.found)
		}
	}
	look(device(t, "stuck", ""))
	// A process that is deaf to signals would keep the lock. This one could be read.
	again := device(t, "stuck", "13")
	held := free(t, n, again.id)
	look(again)
	held.Close()
}

func TestWhoeverReadsHoldsTheLockOfLooks(t *testing.T) {
	n := &host.Host{State: state.Dir(t.TempDir())}
	if err := n.State.Make(); err != nil {
		t.Fatal(err)
	}
	stuck := device(t, "stuck", "")
	held, err := state.TryLockLook(n.State.Locks(), stuck.id)
	if err != nil {
		t.Fatal(err)
	}
	reading, err := counters.BeginWith(held.File, []string{stuck.folder}, nil)
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	if _, err := state.TryLockLook(n.State.Locks(), stuck.id); !errors.Is(err, state.ErrHeld) {
		t.Errorf("a second look: %v", err)
	}
	if _, err := reading.End(time.Now()); err == nil {
		t.Error("it has read what cannot be read")
	}
	free(t, n, stuck.id).Close()
}

// free takes the lock of looks at an HCA when a process that was killed has ended.
func free(t *testing.T, n *host.Host, id node.ID) *state.Lock {
	t.Helper()
	for end := time.Now().Add(await.Most(t)); ; time.Sleep(time.Millisecond) {
		held, err := state.TryLockLook(n.State.Locks(), id)
		if err == nil {
			return held
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestAUserWithoutANameIsCalledByTheUID(t *testing.T) {
	for name, want := range map[string]string{"": "7", "ann": "ann", `LAB\ann`: "7", "ann bob": "7"} {
		page, err := Found{HCAs: []HCA{{Job: 1, UID: 7, Device: "mlx5_0", IP: &IP{Interface: "eth1"}}}}.Page(map[uint32]string{7: name})
		if err != nil || !strings.Contains(string(page.Text()), `{jobid="1",user="`+want+`",`) {
			t.Errorf("%q: %v\n%s", name, err, page.Text())
		}
	}
}
