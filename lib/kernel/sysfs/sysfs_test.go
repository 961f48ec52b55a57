package sysfs_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/sysfs"
	"gresnet/test/netnstest"
)

// tree lays out a /sys: links where a target is given, files else.
func tree(t *testing.T, links, files map[string]string) fs.FS {
	t.Helper()
	root := t.TempDir()
	for name, target := range links {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return os.DirFS(root)
}

func TestACharacterDeviceTellsWhereItsHardwareSits(t *testing.T) {
	sys := tree(t, map[string]string{
		"dev/char/231:192": "../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/infiniband_verbs/uverbs0",
		"dev/char/231:193": "../../devices/pci0000:3a/0000:3b:00.0/mlx5_core.sf.4/infiniband_verbs/uverbs1",
		"dev/char/231:194": "../../devices/platform/ibfake.2/infiniband_verbs/uverbs2",
		"dev/char/231:195": "../../devices/pci10000:e0/10000:e0:00.0/infiniband_verbs/uverbs3",
	}, nil)
	tests := []struct {
		minor uint32
		name  string
		place sysfs.BusAddress
	}{
		{192, "uverbs0", sysfs.BusAddress{PCI: "0000:3b:00.1"}},
		{193, "uverbs1", sysfs.BusAddress{PCI: "0000:3b:00.0", Aux: "mlx5_core.sf.4"}},
		{194, "uverbs2", sysfs.BusAddress{}},
		{195, "uverbs3", sysfs.BusAddress{PCI: "10000:e0:00.0"}},
	}
	for _, tt := range tests {
		name, place, err := sysfs.Char(sys, 231, tt.minor)
		if err != nil || name != tt.name || place != tt.place {
			t.Errorf("231:%d is %q at %+v, %v, wanted %q at %+v", tt.minor, name, place, err, tt.name, tt.place)
		}
	}
	if _, _, err := sysfs.Char(sys, 231, 7); err == nil {
		t.Error("a device that is not there was found")
	}
}

func TestOnlyGIDsThatAreInUseAreRead(t *testing.T) {
	const dir = "class/infiniband/mlx5_0/ports/1/gids/"
	sys := tree(t, nil, map[string]string{
		dir + "0": "fe80:0000:0000:0000:00c9:03ff:fe00:0002\n",
		dir + "1": "0000:0000:0000:0000:0000:ffff:0a01:0002\n",
		dir + "2": "0000:0000:0000:0000:0000:0000:0000:0000\n",
		dir + "3": "fe80:0000:0000:0000:0000:0000:0000:0000\n",
		dir + "4": "nonsense\n",
	})
	var all []netip.Addr
	for _, text := range []string{"fe80::c9:3ff:fe00:2", "::ffff:10.1.0.2", "::", "fe80::"} {
		all = append(all, netip.MustParseAddr(text))
	}
	missing, err := sysfs.MissingGIDs(sys, "mlx5_0", 1, all)
	if err != nil || !slices.Equal(missing, all[2:]) {
		t.Errorf("missing GIDs %v, %v, wanted %v", missing, err, all[2:])
	}
	guid, err := sysfs.PortGUID(sys, "mlx5_0", 1)
	if err != nil || hex.EncodeToString(guid) != "00c903fffe000002" {
		t.Errorf("the port's GUID is %x, %v", guid, err)
	}
}

func TestOnlyGIDsForRoCEv2OfThePortsOwnInterfaceCount(t *testing.T) {
	const dir = "class/infiniband/mlx5_0/ports/1/"
	files := map[string]string{}
	for n, e := range [][3]string{
		{"fe80:0000:0000:0000:00c9:03ff:fe00:0002", "IB/RoCE v1", "roce0"},
		{"fe80:0000:0000:0000:00c9:03ff:fe00:0002", "RoCE v2", "roce0"},
		{"0000:0000:0000:0000:0000:ffff:0a01:0002", "RoCE v2", "roce0.100"},
		{"0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2", "roce0"},
		{"0000:0000:0000:0000:0000:ffff:0a01:0003", "RoCE v2", "roce0"},
	} {
		files[fmt.Sprint(dir, "gids/", n)] = e[0] + "\n"
		files[fmt.Sprint(dir, "gid_attrs/types/", n)] = e[1] + "\n"
		files[fmt.Sprint(dir, "gid_attrs/ndevs/", n)] = e[2] + "\n"
	}
	files[dir+"gids/5"] = "0000:0000:0000:0000:0000:ffff:0a01:0004\n" // whose attributes are gone
	sys := tree(t, nil, files)
	got, err := sysfs.RoCEv2(sys, "mlx5_0", 1, "roce0")
	want := []sysfs.Entry{{Index: 1, GID: netip.MustParseAddr("fe80::c9:3ff:fe00:2")}, {Index: 4, GID: netip.MustParseAddr("::ffff:10.1.0.3")}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	table, err := sysfs.ReadGIDTable(sys, "mlx5_0", 1)
	if want := (sysfs.GIDTable{Length: 6, Kinds: 2}); err != nil || table != want {
		t.Errorf("the table is %+v, %v, want %+v", table, err, want)
	}
	if got, err := sysfs.RoCEv2(sys, "mlx5_1", 1, "roce0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a port that is not there: %v, %v", got, err)
	}
}

func TestAnUnattachedSysfsShowsTheNamespaceItWasMadeIn(t *testing.T) {
	ns := netnstest.New(t)
	ns.IP("link add only0 type veth peer name only1")
	err := ns.Do(func() error {
		sys, err := sysfs.Mount()
		if err != nil {
			return err
		}
		defer sys.Close()
		entries, err := fs.ReadDir(sys, "class/net")
		if err != nil {
			return err
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if !slices.Contains(names, "only0") || slices.Contains(names, "eth0") {
			t.Errorf("class/net has %q", names)
		}
		_, err = fs.ReadLink(sys, "class/net/only0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTargetsAreTheHostsOfISCSISessions(t *testing.T) {
	const class, session = "class/iscsi_connection/", "devices/platform/host7/session"
	sys := tree(t, map[string]string{
		class + "connection1:0": "../../" + session + "1/connection1:0/iscsi_connection/connection1:0",
		class + "connection2:0": "../../" + session + "2/connection2:0/iscsi_connection/connection2:0",
		class + "connection3:0": "../../" + session + "3/connection3:0/iscsi_connection/connection3:0",
		class + "connection4:0": "../../" + session + "4/connection4:0/iscsi_connection/connection4:0", // which ended meanwhile
	}, map[string]string{
		session + "1/connection1:0/iscsi_connection/connection1:0/address":            "10.0.0.7\n",
		session + "1/connection1:0/iscsi_connection/connection1:0/persistent_address": "10.0.0.8\n",
		session + "2/connection2:0/iscsi_connection/connection2:0/address":            "fd00::7\n",
		session + "3/connection3:0/iscsi_connection/connection3:0/address":            "\n", // which is being made
	})
	got, err := sysfs.Targets(sys)
	if want := []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")}; err != nil || !slices.Equal(got, want) {
		t.Errorf("targets are %v, %v, wanted %v", got, err, want)
	}
	if got, err := sysfs.Targets(os.DirFS(t.TempDir())); got != nil || err != nil {
		t.Errorf("without iSCSI: %v, %v", got, err)
	}
}

func TestNVMeTargetsAreTheHostsOfDisksOverTCP(t *testing.T) {
	const class = "class/nvme/"
	sys := tree(t, nil, map[string]string{
		class + "nvme0/transport": "pcie\n", class + "nvme0/address": "0000:01:00.0\n",
		class + "nvme1/transport": "tcp\n", class + "nvme1/address": "traddr=10.0.0.7,trsvcid=4420,src_addr=10.0.0.1\n",
		class + "nvme2/transport": "tcp\n", class + "nvme2/address": "traddr=fd00::7,trsvcid=4420,host_traddr=fd00::1\n",
		class + "nvme3/transport": "rdma\n", class + "nvme3/address": "traddr=10.0.0.8,trsvcid=4420\n",
		class + "nvme4/transport": "tcp\n", // which goes
	})
	got := sysfs.NVMeTargets(sys)
	if want := []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")}; !slices.Equal(got, want) {
		t.Errorf("targets are %v, wanted %v", got, want)
	}
	if got := sysfs.NVMeTargets(os.DirFS(t.TempDir())); got != nil {
		t.Errorf("without NVMe: %v", got)
	}
}

// leaving is a /sys of a device that goes while it is looked at.
type leaving struct{ fstest.MapFS }

func (leaving) ReadFile(name string) ([]byte, error) {
	return nil, &fs.PathError{Op: "read", Path: name, Err: unix.ENODEV}
}

func TestADeviceThatGoesWhileItIsLookedAtIsNotThere(t *testing.T) {
	sys := leaving{fstest.MapFS{"class/infiniband_verbs/uverbs0": {Data: []byte("../../devices/uverbs0"), Mode: fs.ModeSymlink}}}
	if _, err := sysfs.OwnerOf(sys, "uverbs0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its owner: %v", err)
	}
	if _, err := sysfs.NodeGUID(sys, "mlx5_0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its GUID: %v", err)
	}
}
