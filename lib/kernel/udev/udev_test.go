package udev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/test/netnstest"
)

// done sends an event on as udev does.
func done(properties string) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	const header = 40
	message := []byte("libudev\x00\xfe\xed\xca\xfe")
	for _, n := range []int{header, header, len(properties), 0, 0, 0, 0} {
		message = binary.NativeEndian.AppendUint32(message, uint32(n))
	}
	message = append(message, properties...)
	err = unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: udevGroup})
	if errors.Is(err, unix.ECONNREFUSED) {
		return nil // the kernel, which is sent it, too, takes none
	}
	return err
}

// In a network namespace of its own, where the test is udev.
func TestAWatchWaitsForEventsOfInterfacesAndForNoOthers(t *testing.T) {
	bed, run := netnstest.New(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(run, "udev"), 0o755); err != nil {
		t.Fatal(err)
	}
	var w *Watch
	err := bed.Do(func() (err error) {
		w, err = Open(run)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	settled := func(want bool, when string) {
		t.Helper()
		if got, err := w.Idle(); got != want || err != nil {
			t.Errorf("%s: settled %v, %v", when, got, err)
		}
	}
	sent := func(subsystem string) {
		t.Helper()
		for number := range pendingOf(w) {
			err := bed.Do(func() error {
				return done(fmt.Sprintf("ACTION=add\x00SUBSYSTEM=%s\x00SEQNUM=%d\x00", subsystem, number))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	bed.IP("link add early type veth peer name other")
	settled(true, "no udevd runs")
	if err := os.WriteFile(filepath.Join(run, "udev/queue"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	settled(false, "an interface came")
	sent("bdi")
	settled(false, "udev is done with other devices")
	sent("net")
	settled(true, "udev is busy with others")
	bed.IP("link set early name late")
	settled(false, "it was renamed")
}

// On a busy machine udevd reads an event long after the kernel sent it, and until then it has no queue.
func TestAWatchWaitsForUdevdToReadAnEvent(t *testing.T) {
	bed, run := netnstest.New(t), t.TempDir()
	control := filepath.Join(run, "udev/control")
	if err := os.Mkdir(filepath.Dir(control), 0o755); err != nil {
		t.Fatal(err)
	}
	udevd, err := net.Listen("unixpacket", control)
	if err != nil {
		t.Fatal(err)
	}
	defer udevd.Close()
	var w *Watch
	err = bed.Do(func() (err error) {
		w, err = Open(run)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if idle, err := w.Idle(); !idle || err != nil {
		t.Errorf("before any event: %v, %v", idle, err)
	}
	bed.IP("link add early type veth peer name other")
	if idle, err := w.Idle(); idle || err != nil {
		t.Errorf("udevd has not read the event: %v, %v", idle, err)
	}
}

func TestRenewTellsEachDeviceAndPassesOverOneThatIsGone(t *testing.T) {
	here, gone := t.TempDir(), filepath.Join(t.TempDir(), "gone")
	if err := Renew([]string{gone, here}); err != nil {
		t.Error(err)
	}
	if told, err := os.ReadFile(filepath.Join(here, "uevent")); string(told) != "change" {
		t.Errorf("it was told %q, %v", told, err)
	}
}

func pendingOf(w *Watch) map[uint64]bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	pending := map[uint64]bool{}
	for number := range w.pending {
		pending[number] = true
	}
	return pending
}

func TestWhatAWatchHasNoRoomForItDoesNotTakeForDone(t *testing.T) {
	run := t.TempDir()
	if err := os.MkdirAll(filepath.Join(run, "udev/queue"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := &Watch{run: filepath.Join(run, "udev"), lost: true, socket: -1}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	w.socket = fds[0]
	if settled, err := w.Idle(); settled || err != nil {
		t.Errorf("settled %v, %v", settled, err)
	}
}

func TestAnEventsNumberIsReadWhereverItStands(t *testing.T) {
	for text, want := range map[string]uint64{
		"add@/devices/x\x00ACTION=add\x00SUBSYSTEM=net\x00SEQNUM=7\x00": 7,
		"SEQNUM=8\x00SUBSYSTEM=infiniband\x00":                          8,
		"SUBSYSTEM=infiniband_verbs\x00DEVNUM=1\x00SEQNUM=9":            9,
		"SUBSYSTEM=queues\x00SEQNUM=10\x00":                             0,
		"XSUBSYSTEM=net\x00SEQNUM=11\x00":                               0,
		"SUBSYSTEM=net\x00XSEQNUM=12\x00":                               0,
	} {
		number, _, err := parse([]byte(text))
		if number != want || (err == nil) != (want != 0) {
			t.Errorf("%q: number %d, %v", text, number, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("add@/devices/x\x00SEQNUM=1\x00SUBSYSTEM=net\x00"))
	f.Add([]byte("libudev\x00\xfe\xed\xca\xfe\x28\x00\x00\x00\x28\x00\x00\x00\x05\x00\x00\x00"))
	f.Fuzz(func(_ *testing.T, message []byte) { parse(message) })
}
