package sriov

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/node"
	"gresnet/test/netnstest"
)

func TestAddressesOfVFsAreTheSameEachTimeAndNobodysOwn(t *testing.T) {
	ethernet, infiniband := Link{}, Link{InfiniBand: true}
	seen := map[string]bool{}
	for _, pf := range []string{"0002:c903:0000:0100", "0002:c903:0000:0200"} {
		for vf := range 64 {
			a, ib := ethernet.AddressOf(pf, vf), infiniband.AddressOf(pf, vf)
			mac, err := net.ParseMAC(a.MAC)
			if err != nil || mac[0]&2 == 0 || mac[0]&1 != 0 || seen[a.MAC] || a != ethernet.AddressOf(pf, vf) || a.Node != "" {
				t.Errorf("VF %d of %s has the address %s, %v", vf, pf, a, err)
			}
			seen[a.MAC] = true
			guid, err := parseGUID(ib.Node)
			if err != nil || guid[:6].String() != a.MAC || ib.Port != ib.Node || ib.MAC != "" {
				t.Errorf("VF %d of %s has the address %s, %v, and the MAC %s", vf, pf, ib, err, a.MAC)
			}
		}
	}
	if got, want := ethernet.AddressOf("0002:c903:0000:0100", 3).MAC, "8e:40:71:a6:24:66"; got != want {
		t.Errorf("VF 3 had the MAC %s, and has %s after an upgrade", want, got)
	}
}

func TestOnlyKeepsWhatTheOtherSays(t *testing.T) {
	mac, yes, state := "02:00:00:00:00:01", true, Enable
	whole := Attributes{VLAN: &VLAN{100, 3, Dot1AD}, MAC: &mac, Rate: &Rate{5, 100}, SpoofCheck: &yes, Trust: &yes, State: &state}
	if want := "vlan 100 qos 3 proto 802.1ad, mac 02:00:00:00:00:01, rate from 5 to 100 Mbit/s, spoof check true, trust true, state enable"; whole.String() != want {
		t.Errorf("it prints %q", whole)
	}
	for _, at := range attributes {
		var one Attributes
		at.keep(&one, whole)
		if got := whole.Only(one); got != one || got.String() != at.name+" "+at.text(whole) {
			t.Errorf("only %s is %s", at.name, got)
		}
	}
	if got := whole.Only(Attributes{}); got != (Attributes{}) {
		t.Errorf("nothing of it is %s", got)
	}
}

func TestAPFHasRoomForItsVFs(t *testing.T) {
	for _, c := range []struct {
		count, now, total int
		err               string
	}{
		{8, 0, 8, ""}, {8, 8, 8, ""}, {3, 8, 8, ""},
		{1, 0, 0, "split P: it cannot have VFs"},
		{9, 0, 8, "split P into 9 VFs: it can have 8"},
		{4, 3, 8, "split P into 4 VFs: it has 3"},
	} {
		got := ""
		if err := Fits("P", c.count, c.now, c.total); err != nil {
			got = err.Error()
		}
		if got != c.err {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestThePFsInterfaceIsTheOldest(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	const net = "bus/pci/devices/0000:02:00.0/net/"
	sys := fstest.MapFS{
		net + "ib0.8001/ifindex": file("4"), net + "ib0.8001/type": file("32"),
		net + "ib0/ifindex": file("3"), net + "ib0/type": file("32"),
	}
	if l, err := FindLink(sys, "0000:02:00.0"); err != nil || l != (Link{"ib0", 3, true}) {
		t.Errorf("it is %+v, %v", l, err)
	}
	if _, err := FindLink(sys, "0000:01:00.0"); !errors.Is(err, ErrNoLink) {
		t.Errorf("of a PF without one: %v", err)
	}
}

// A driver's folder and files, without a driver behind them.
func TestAVFIsBoundAgainByItsDriversFiles(t *testing.T) {
	netnstest.Slow(t)
	bus := t.TempDir()
	driver, vf := filepath.Join(bus, "drivers/ibfake"), filepath.Join(bus, "devices/0000:01:00.1")
	if err := errors.Join(os.MkdirAll(driver, 0o755), os.MkdirAll(vf, 0o755), os.Symlink(driver, filepath.Join(vf, "driver"))); err != nil {
		t.Fatal(err)
	}
	files := []string{filepath.Join(driver, "unbind"), filepath.Join(bus, "drivers_probe"), filepath.Join(vf, "sriov_numvfs")}
	for _, f := range files {
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	until := time.Now().Add(time.Minute)
	if err := errors.Join(Bus(bus).Rebind("0000:01:00.1", until), Bus(bus).Create("0000:01:00.1", 4, until)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"0000:01:00.1", "0000:01:00.1", "4"} {
		if text, err := os.ReadFile(files[i]); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v", files[i], text, err)
		}
	}
	// A driver that is being loaded has no such file yet.
	if err := errors.Join(os.Remove(files[0]), os.WriteFile(files[1], nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := Bus(bus).Rebind("0000:01:00.1", time.Now().Add(5*time.Second)); err == nil || !strings.Contains(err.Error(), "its driver does not let go of it") {
		t.Errorf("the driver let go of it: %v", err)
	}
	if err := os.Remove(filepath.Join(vf, "driver")); err != nil {
		t.Fatal(err)
	}
	if err := Bus(bus).Rebind("0000:01:00.1", time.Now().Add(5*time.Second)); !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), "bind VF 0000:01:00.1 again: no driver takes it") {
		t.Errorf("no driver took it: %v", err)
	}
	pf := filepath.Join(bus, "devices/0000:01:00.0")
	if err := errors.Join(os.Mkdir(pf, 0o755), os.Symlink(pf, filepath.Join(vf, "physfn")), os.WriteFile(filepath.Join(pf, "sriov_drivers_autoprobe"), []byte("0\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := Bus(bus).Rebind("0000:01:00.1", time.Now().Add(5*time.Second)); !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), "sriov_drivers_autoprobe of its PF is 0") {
		t.Errorf("no driver may take it: %v", err)
	}
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	if err := Bus(bus).Rebind("0000:01:00.1", time.Now().Add(5*time.Second)); err == nil || errors.Is(err, ErrNoDriver) {
		t.Errorf("it was offered to no driver: %v", err)
	}
	if err := Bus(bus).Create("0000:09:00.0", 4, until); err == nil || errors.Is(err, fs.ErrExist) {
		t.Errorf("there is no such PF: %v", err)
	}
}

// The changer ends it, or is left behind: a FIFO without a reader is a driver that never answers.
func TestADriverThatNeverAnswersHoldsNobodyUp(t *testing.T) {
	bus := t.TempDir()
	if err := os.MkdirAll(filepath.Join(bus, "devices/0000:01:00.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(bus, "devices/0000:01:00.0/sriov_numvfs"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Bus(bus).Create("0000:01:00.0", 4, time.Now().Add(time.Second))
	if err == nil || !strings.Contains(err.Error(), "its driver does not end it") {
		t.Errorf("it ended: %v", err)
	}
}

// switchTree returns a /sys of a PF in switchdev mode, eth9, with two VFs, of a second PF of that card, and of an
// interface whose driver has no such files.
func switchTree(repIndex string) fstest.MapFS {
	sys := fstest.MapFS{"class/net/lo/ifindex": {Data: []byte("1\n")}}
	add := func(pf, name, index, id, port string) {
		for file, text := range map[string]string{"ifindex": index, "type": "1", "phys_switch_id": id, "phys_port_name": port} {
			if text == "" {
				continue
			}
			sys["class/net/"+name+"/"+file] = &fstest.MapFile{Data: []byte(text + "\n")}
			sys["bus/pci/devices/"+pf+"/net/"+name+"/"+file] = sys["class/net/"+name+"/"+file]
		}
	}
	add("0000:3b:00.0", "eth0", repIndex, "00c9", "pf0vf1")
	add("0000:3b:00.0", "eth1", "6", "00c9", "pf0vf0")
	add("0000:3b:00.0", "eth2", "5", "00c9", "c1pf0vf2")
	add("0000:3b:00.0", "eth9", "9", "00c9", "p0")
	add("0000:3b:00.1", "eth3", "4", "00c9", "pf1vf1")
	add("0000:3b:00.1", "eth8", "8", "00c9", "p1")
	add("0000:5e:00.0", "eth4", "3", "00d0", "pf0vf1")
	add("0000:5e:00.0", "eth7", "7", "00d0", "p0")
	add("0000:90:00.0", "eth5", "2", "", "")
	return sys
}

func TestARepresentorIsFoundByItsSwitchAndItsPort(t *testing.T) {
	sys := switchTree("2")
	for _, c := range []struct {
		pf   string
		vf   string
		want string
	}{
		{"0000:3b:00.0", "0", "eth1"}, {"0000:3b:00.0", "1", "eth0"}, {"0000:3b:00.0", "2", "eth2"}, {"0000:3b:00.0", "3", ""}, {"0000:3b:00.0", "10", ""},
		{"0000:3b:00.1", "1", "eth3"}, {"0000:3b:00.1", "0", ""}, {"0000:5e:00.0", "1", "eth4"}, {"0000:90:00.0", "0", ""}, {"0000:91:00.0", "0", ""},
	} {
		rep, err := FindRepresentor(sys, node.ID{PCI: c.pf, VF: c.vf})
		if rep.Name != c.want || (c.want == "") != errors.Is(err, ErrNoRepresentor) || c.want != "" && err != nil {
			t.Errorf("that of VF %s of %s is %q, wanted %q: %v", c.vf, c.pf, rep.Name, c.want, err)
		}
	}
	for pf, want := range map[string]string{"0000:3b:00.0": "eth9", "0000:3b:00.1": "eth8", "0000:90:00.0": "eth5"} {
		if uplink, err := FindLink(sys, pf); err != nil || uplink.Name != want {
			t.Errorf("the interface of %s is %q, wanted %q: %v", pf, uplink.Name, want, err)
		}
	}
}
