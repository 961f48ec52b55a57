package devnode

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/base/config"
	"gresnet/lib/state"
	"gresnet/test/netnstest"
	"gresnet/test/sitetest"
)

// deviceFolder returns a folder in which device nodes work.
func deviceFolder(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to make device nodes")
	}
	dir := filepath.Join(t.TempDir(), "dev")
	if err := errors.Join(os.Mkdir(dir, 0o700), state.MountDevices(dir)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := state.Unmount(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// link and file are what a /sys has.
func link(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }

// restricting parses the configuration of a site that restricts the device nodes of free HCAs, unless the text says otherwise.
func restricting(t *testing.T, toml string) config.Config {
	t.Helper()
	if !strings.Contains(toml, "host =") {
		toml = "[access]\nhost = \"closed\"\n" + toml
	}
	return sitetest.Parse(t, toml)
}

func TestDeviceNodesAreRestrictedOfTheHCAsThatTheSiteListsWhereverTheyAre(t *testing.T) {
	sys := fstest.MapFS{"class/infiniband/mlx5_0/node_guid": file("0002:c903:0000:0100")} // mlx5_1 is in a job
	for i, pci := range []string{"0000:10:00.0", "0000:90:00.0"} {
		digit := string(rune('0' + i))
		for class, names := range map[string][]string{"infiniband_verbs": {"uverbs"}, "infiniband_mad": {"umad", "issm"}} {
			for _, name := range names {
				dir := "devices/" + pci + "/" + class + "/" + name + digit
				sys[dir+"/ibdev"] = file("mlx5_" + digit)
				sys["class/"+class+"/"+name+digit] = link("../../" + dir)
			}
		}
	}
	first, second := []string{"uverbs0", "umad0", "issm0"}, []string{"uverbs1", "umad1", "issm1"}
	for _, c := range []struct {
		match      string
		restricted []string
	}{
		{"", append(slices.Clone(first), second...)},
		{"pci=0000:10:00.0", first},
		{"pci=0000:90:00.0", second},
		{"rdma=mlx5_1", second},
		{"guid=0002:c903:0000:0100", first},
		{"guid=0002:c903:0000:0101", nil}, // away, where nobody can be asked for it
	} {
		toml := ""
		if c.match != "" {
			toml = "[[hca]]\nindex = 0\nmatch = \"" + c.match + "\"\n"
		}
		n := Nodes{Config: restricting(t, toml), Sys: sys}
		var restricted []string
		known := verdicts{}
		for _, name := range append(slices.Clone(first), second...) {
			v, err := n.covers(name, known)
			if err != nil {
				t.Errorf("%q: %s: %v", c.match, name, err)
			}
			if v.covered {
				restricted = append(restricted, name)
			}
		}
		if !slices.Equal(restricted, c.restricted) {
			t.Errorf("%q: %q are restricted, wanted %q", c.match, restricted, c.restricted)
		}
		if _, err := n.covers("uverbs7", known); toml != "" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: a node that went meanwhile: %v", c.match, err)
		}
	}
}

func TestDeviceNodesAreRestrictedOfAPFInPartsAndOfAllItsVFs(t *testing.T) {
	sys := fstest.MapFS{}
	for digit, pci := range map[string]string{"0": "0000:10:00.0", "1": "0000:10:00.1", "2": "0000:10:00.2", "3": "0000:90:00.0"} {
		dir := "devices/" + pci + "/infiniband_verbs/uverbs" + digit
		sys[dir+"/ibdev"] = file("mlx5_" + digit)
		sys["class/infiniband_verbs/uverbs"+digit] = link("../../" + dir)
		sys["class/infiniband/mlx5_"+digit+"/node_guid"] = file("0002:c903:0000:010" + digit)
		sys["bus/pci/devices/"+pci] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	}
	for number, vf := range map[string]string{"0": "0000:10:00.1", "1": "0000:10:00.2"} {
		sys["bus/pci/devices/"+vf+"/physfn"] = link("../0000:10:00.0")
		sys["bus/pci/devices/0000:10:00.0/virtfn"+number] = link("../" + vf)
	}
	n := Nodes{Config: restricting(t, "[[hca]]\nindex = 0\npart = \"vf\"\ncount = 1\nmatch = \"pci=10:00.0\"\n"), Sys: sys}
	for name, want := range map[string]bool{"uverbs0": true, "uverbs1": true, "uverbs2": true, "uverbs3": false} {
		if v, err := n.covers(name, verdicts{}); err != nil || v.covered != want {
			t.Errorf("%s is restricted: %t, %v", name, v.covered, err)
		}
	}
}

func TestTheFolderIsRestrictedUnlessTheSiteUsesHCAsBesidesThoseOfJobs(t *testing.T) {
	sys := fstest.MapFS{}
	for i, pci := range []string{"0000:10:00.0", "0000:90:00.0"} {
		digit := string(rune('0' + i))
		dir := "devices/" + pci + "/infiniband_verbs/uverbs" + digit
		sys[dir+"/ibdev"] = file("mlx5_" + digit)
		sys["class/infiniband_verbs/uverbs"+digit] = link("../../" + dir)
		sys["class/infiniband/mlx5_"+digit+"/node_guid"] = file("0002:c903:0000:010" + digit)
	}
	away := maps.Clone(sys)
	delete(away, "class/infiniband/mlx5_1/node_guid")
	const first, both = "[[hca]]\nindex = 0\nmatch = \"pci=0000:10:00.0\"\n", "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\n[[hca]]\nindex = 1\nmatch = \"rdma=mlx5_1\"\n"
	dev := deviceFolder(t)
	for _, name := range []string{"uverbs0", "uverbs1", "rdma_cm"} {
		if err := Make(filepath.Join(dev, name), 1, 3, Access{Mode: 0o666}); err != nil {
			t.Fatal(err)
		}
	}
	known := filepath.Join(t.TempDir(), "closed")
	// One after the other, on one node.
	for _, c := range []struct {
		what, toml string
		sys        fstest.MapFS
		restricted bool
		modes      string // of uverbs0, uverbs1, rdma_cm
	}{
		{"open", "[access]\nhost = \"open\"\n", sys, false, "666 666 666"},
		{"one is the site's", first, sys, false, "600 666 600"},
		{"the site's is away", first, away, true, "600 666 600"},
		{"it is back", first, sys, false, "600 666 600"},
		{"all are listed", both, sys, true, "600 600 600"},
		{"none is listed", "", sys, true, "600 600 600"},
		{"open again", "[access]\nhost = \"open\"\n", sys, false, "600 600 600"},
		{"none is listed, again", "", sys, true, "600 600 600"},
	} {
		n := Nodes{Config: restricting(t, c.toml), Sys: c.sys, Dev: dev, Known: known}
		if err := n.Restrict(); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if restricted, err := Folder(dev).IsRestricted(); err != nil || restricted != c.restricted {
			t.Errorf("%s: the folder is restricted: %v, %v", c.what, restricted, err)
		}
		var modes []string
		for _, name := range []string{"uverbs0", "uverbs1", "rdma_cm"} {
			access, err := Stat(filepath.Join(dev, name))
			if err != nil {
				t.Fatal(err)
			}
			modes = append(modes, fmt.Sprintf("%o", access.Mode))
		}
		if got := strings.Join(modes, " "); got != c.modes {
			t.Errorf("%s: the nodes are %s, wanted %s", c.what, got, c.modes)
		}
	}
}

// TestANodeThatComesBeforeUdevHasRenamedItsHCAIsRestricted has a driver make an HCA again, under another name than the site
// lists.
func TestANodeThatComesBeforeUdevHasRenamedItsHCAIsRestricted(t *testing.T) {
	sys := func(first string) fstest.MapFS {
		all := fstest.MapFS{}
		for i, name := range []string{first, "rocep2s0"} {
			digit := string(rune('0' + i))
			pci := "0000:0" + digit + ":00.0"
			dir := "devices/" + pci + "/infiniband_verbs/uverbs" + digit
			all[dir+"/ibdev"], all[dir+"/device"] = file(name), link("../../../"+pci)
			all["class/infiniband_verbs/uverbs"+digit] = link("../../" + dir)
			all["class/infiniband/"+name+"/node_guid"] = file("0002:c903:0000:010" + digit)
		}
		return all
	}
	dev, known := deviceFolder(t), filepath.Join(t.TempDir(), "closed")
	for _, name := range []string{"rocep1s0", "mlx5_0", "rocep1s0"} {
		for _, node := range []string{"uverbs0", "uverbs1"} {
			path := filepath.Join(dev, node)
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err := Make(path, 1, 3, Access{Mode: 0o666}); err != nil {
				t.Fatal(err)
			}
		}
		n := Nodes{Config: restricting(t, "[[hca]]\nindex = 0\nmatch = \"rdma=rocep1s0\"\n"), Sys: sys(name), Dev: dev, Known: known}
		if err := n.Restrict(); err != nil {
			t.Error(err)
		}
		for node, want := range map[string]fs.FileMode{"uverbs0": 0o600, "uverbs1": 0o666} {
			if access, err := Stat(filepath.Join(dev, node)); err != nil || fs.FileMode(access.Mode) != want {
				t.Errorf("while the HCA's name is %s, %s is %o, wanted %o: %v", name, node, access.Mode, want, err)
			}
		}
	}
}

func TestUdevIsToldOfEachHCAThatRestrictRestrictsAndOfNoOther(t *testing.T) {
	sys := fstest.MapFS{}
	for i, pci := range []string{"0000:10:00.0", "0000:90:00.0"} {
		digit := string(rune('0' + i))
		for class, name := range map[string]string{"infiniband_verbs": "uverbs", "infiniband_mad": "umad"} {
			dir := "devices/" + pci + "/" + class + "/" + name + digit
			sys[dir+"/ibdev"], sys[dir+"/device"] = file("mlx5_"+digit), link("../../../"+pci)
			sys["class/"+class+"/"+name+digit] = link("../../" + dir)
		}
		sys["class/infiniband/mlx5_"+digit+"/node_guid"] = file("0002:c903:0000:010" + digit)
	}
	dir := "devices/virtual/infiniband_verbs/uverbs2"
	sys[dir+"/ibdev"], sys["class/infiniband_verbs/uverbs2"] = file("rxe0"), link("../../"+dir)
	dev, known := deviceFolder(t), filepath.Join(t.TempDir(), "closed")
	const open, first = "[access]\nhost = \"open\"\n", "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\n"
	one, two, cm := "0000:10:00.0:mlx5_0", "0000:90:00.0:mlx5_1", "rdma_cm"
	// One after the other, on one node, whose device nodes are made again each time, or not.
	for _, c := range []struct {
		what, toml string
		remade     bool
		told       []string
	}{
		{"none is listed", "", true, []string{one, two, cm}},
		{"all are restricted already", "", false, []string{one, two, cm}},
		{"one is listed, and nobody has looked", first, false, nil},
		{"one is listed", first, true, []string{one, cm}},
		{"the site wants all open", open, true, []string{opened}},
		{"it still does", open, false, []string{opened}},
		{"and again none is listed", "", true, []string{one, two, cm}},
	} {
		for _, name := range []string{"uverbs0", "umad0", "uverbs1", "umad1", "uverbs2", "rdma_cm"} {
			path := filepath.Join(dev, name)
			if !c.remade {
				continue
			}
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err := Make(path, 1, 3, Access{Mode: 0o666}); err != nil {
				t.Fatal(err)
			}
		}
		n := Nodes{Config: restricting(t, c.toml), Sys: sys, Dev: dev, Known: known}
		if err := n.Restrict(); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		entries, err := os.ReadDir(known)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		var told []string
		for _, e := range entries {
			if e.Name() != list {
				told = append(told, e.Name())
			}
		}
		if !slices.Equal(told, c.told) {
			t.Errorf("%s: udev is told of %q, wanted %q", c.what, told, c.told)
		}
	}
}

func TestDeviceNodesAreRestoredAsTheyWereWhateverTheirNumbersAre(t *testing.T) {
	sysOf := func(numbers ...string) fstest.MapFS {
		sys := fstest.MapFS{"class/misc/rdma_cm/uevent": file("DEVMODE=0666")}
		for i, pci := range []string{"0000:10:00.0", "0000:90:00.0"} {
			digit := string(rune('0' + i))
			for class, name := range map[string]string{"infiniband_verbs": "uverbs", "infiniband_mad": "umad"} {
				dir := "devices/" + pci + "/" + class + "/" + name + numbers[i]
				sys[dir+"/ibdev"], sys[dir+"/port"] = file("mlx5_"+digit), file("1")
				sys["class/"+class+"/"+name+numbers[i]] = link("../../" + dir)
				sys[dir+"/uevent"] = file("DEVMODE=0666")
			}
			sys["class/infiniband/mlx5_"+digit+"/node_guid"] = file("0002:c903:0000:010" + digit)
		}
		return sys
	}
	was := map[string]Access{"uverbs0": {Mode: 0o660, GID: 7}, "uverbs1": {Mode: 0o666}, "umad0": {Mode: 0o600}, "umad1": {Mode: 0o640}, "rdma_cm": {Mode: 0o666}}
	lay := func(dev string, access map[string]Access) {
		for name, a := range access {
			if err := Make(filepath.Join(dev, name), 1, 3, a); err != nil {
				t.Fatal(err)
			}
		}
	}
	has := func(what, dev string, want map[string]Access, folder Access) {
		t.Helper()
		for name, access := range want {
			if now, err := Stat(filepath.Join(dev, name)); err != nil || now != access {
				t.Errorf("%s: %s is %+v, wanted %+v: %v", what, name, now, access, err)
			}
		}
		if now, err := Folder(dev).access(); err != nil || now != folder {
			t.Errorf("%s: the folder is %+v, wanted %+v: %v", what, now, folder, err)
		}
		if is, err := Folder(dev).isMarked(); err != nil || is {
			t.Errorf("%s: the folder has gresnet's mark: %v", what, err)
		}
	}
	dev := deviceFolder(t)
	folder := Access{Mode: 0o750, GID: 7}
	if err := errors.Join(os.Chmod(dev, 0o750), os.Chown(dev, 0, 7)); err != nil {
		t.Fatal(err)
	}
	lay(dev, was)
	// An access control list: u::rw, u:1000:rw, g::-, m::rw, o::-.
	list := "\x02\x00\x00\x00" + "\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00\x06\x00\xe8\x03\x00\x00" +
		"\x04\x00\x00\x00\xff\xff\xff\xff" + "\x10\x00\x06\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff"
	const acl = "system.posix_acl_access"
	listed := Node{Access: Access{Mode: 0o660}, Attributes: map[string][]byte{acl: []byte(list)}}
	if err := Restore(filepath.Join(dev, "uverbs1"), listed); err != nil {
		t.Fatal(err)
	}
	was["uverbs1"] = listed.Access
	hasList := func(name string) {
		t.Helper()
		if now, err := attributes(filepath.Join(dev, name)); err != nil || string(now[acl]) != list {
			t.Errorf("the access control list of %s is %q: %v", name, now[acl], err)
		}
	}
	n := Nodes{Config: restricting(t, ""), Sys: sysOf("0", "1"), Dev: dev, Known: filepath.Join(t.TempDir(), "closed")}
	had, err := n.Picture(false)
	if err == nil {
		err = n.Restrict()
	}
	if err != nil {
		t.Fatal(err)
	}
	if restricted, err := n.Picture(false); err != nil || restricted.Folder != nil || len(restricted.Nodes) > 0 {
		t.Errorf("what is restricted is taken for what was: %+v, %v", restricted, err)
	}
	// Nothing has run before: who restricted a node was the site.
	if err := n.Reopen(had, func([]string) (bool, error) { return true, nil }); err != nil {
		t.Fatal(err)
	}
	all, err := n.Picture(true)
	if err == nil {
		err = n.Restrict()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Reopen(all, func(devices []string) (bool, error) { return true, fmt.Errorf("udev was asked about %q", devices) }); err != nil {
		t.Error(err)
	}
	has("as the site restricted it", dev, was, folder)
	hasList("uverbs1")
	if err := n.Restrict(); err != nil {
		t.Fatal(err)
	}
	var asked []string
	rules := func(devices []string) (bool, error) { asked = devices; return true, nil }
	for range 2 { // the second finds nothing to do
		if err := n.Reopen(had, rules); err != nil {
			t.Fatal(err)
		}
		has("at once", dev, was, folder)
		hasList("uverbs1")
	}
	if want := []string{"/sys/class/infiniband_mad/umad0"}; !slices.Equal(asked, want) {
		t.Errorf("udev was asked about %q, wanted %q", asked, want)
	}
	// The HCAs have been in jobs, and came back with other numbers.
	if err := n.Restrict(); err != nil {
		t.Fatal(err)
	}
	for name := range was {
		if err := os.Remove(filepath.Join(dev, name)); err != nil {
			t.Fatal(err)
		}
	}
	lay(dev, map[string]Access{"uverbs8": RootAlone(), "uverbs9": RootAlone(), "rdma_cm": RootAlone()})
	n.Sys = sysOf("9", "8")
	if err := n.Reopen(had, rules); err != nil {
		t.Fatal(err)
	}
	has("with other numbers", dev, map[string]Access{"uverbs9": was["uverbs0"], "uverbs8": was["uverbs1"], "rdma_cm": was["rdma_cm"]}, folder)
	hasList("uverbs8")
	// Nobody knows how it was, and there is no udev.
	if err := n.Restrict(); err != nil {
		t.Fatal(err)
	}
	if err := n.Reopen(Picture{}, func([]string) (bool, error) { return false, nil }); err != nil {
		t.Fatal(err)
	}
	has("as the kernel makes them", dev, map[string]Access{"uverbs9": {Mode: 0o666}, "uverbs8": {Mode: 0o666}, "rdma_cm": {Mode: 0o666}}, Access{Mode: 0o755})
}

// Programs of Omni-Path open /dev/hfi1_N, which is where no lease covers it.
func TestTheNodesOfHFI1AreRestrictedBesideTheFolderGivenToOneJobAndRestored(t *testing.T) {
	top := deviceFolder(t)
	dev, path := filepath.Join(top, "infiniband"), filepath.Join(top, "hfi1_0")
	if err := os.Mkdir(dev, 0o755); err != nil {
		t.Fatal(err)
	}
	open := Access{Mode: 0o666}
	if err := errors.Join(Make(filepath.Join(dev, "uverbs0"), 1, 3, open), Make(path, 1, 5, open)); err != nil {
		t.Fatal(err)
	}
	const place = "devices/pci0000:00/0000:10:00.0/"
	sys := fstest.MapFS{
		"class/infiniband/hfi1_0":                link("../../" + place + "infiniband/hfi1_0"),
		place + "infiniband/hfi1_0/node_guid":    {Data: []byte("0011:7501:0000:0100\n")},
		"class/infiniband_verbs/uverbs0":         link("../../" + place + "infiniband_verbs/uverbs0"),
		place + "infiniband_verbs/uverbs0/ibdev": {Data: []byte("hfi1_0\n")},
		"class/hfi1_user/hfi1_0":                 link("../../devices/virtual/hfi1_user/hfi1_0"),
		"devices/virtual/hfi1_user/hfi1_0/dev":   {Data: []byte("1:5\n")},
	}
	has := func(when string, want Access) {
		t.Helper()
		if now, err := Stat(path); err != nil || now != want {
			t.Errorf("%s it is %+v, wanted %+v: %v", when, now, want, err)
		}
	}
	for toml, restricted := range map[string]Access{
		"": RootAlone(),
		"[[hca]]\nindex = 0\nmatch = \"rdma=hfi1_0\"\n": RootAlone(),
		"[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\n": open,
	} {
		n := Nodes{Config: restricting(t, toml), Sys: sys, Dev: dev, Known: filepath.Join(t.TempDir(), "closed")}
		had, err := n.Picture(false)
		if err := errors.Join(err, n.Restrict()); err != nil {
			t.Fatal(err)
		}
		has("restricted", restricted)
		jobs, lease := Access{Mode: 0o600, UID: 1000, GID: 1000}, deviceFolder(t)
		if err := errors.Join(Give(dev, lease, "hfi1_0", 1, 5, jobs), n.Restrict()); err != nil {
			t.Fatal(err)
		}
		has("while a job has it and another one's prolog restricts what is open,", jobs)
		if now, err := Stat(filepath.Join(lease, "hfi1_0")); err != nil || now != jobs { // by which the guard knows it
			t.Errorf("in the lease it is %+v, wanted %+v: %v", now, jobs, err)
		}
		if err := errors.Join(Set(path, restricted), n.Reopen(had, func([]string) (bool, error) { return false, nil })); err != nil {
			t.Fatal(err)
		}
		has("returned", open)
	}
}

// As where udev names HCAs after their place. Nothing in /sys tells whose node that is.
func TestANodeOfHFI1IsRestrictedIfItMayBeOfAListedHCAThatHasAnotherName(t *testing.T) {
	top := deviceFolder(t)
	dev := filepath.Join(top, "infiniband")
	if err := os.Mkdir(dev, 0o755); err != nil {
		t.Fatal(err)
	}
	sys := fstest.MapFS{}
	for i, hca := range []struct{ name, driver string }{{"hfi1_0", "hfi1"}, {"ibp32s0", "hfi1"}, {"ibp33s0", "hfi1"}, {"mlx5_0", "mlx5_core"}} {
		digit := string(rune('0' + i))
		place := "devices/pci0000:00/0000:0" + digit + ":00.0/"
		sys["class/infiniband/"+hca.name] = link("../../" + place + "infiniband/" + hca.name)
		sys[place+"infiniband/"+hca.name+"/node_guid"] = file("0011:7501:0000:010" + digit)
		sys["class/infiniband_verbs/uverbs"+digit] = link("../../" + place + "infiniband_verbs/uverbs" + digit)
		sys[place+"infiniband_verbs/uverbs"+digit+"/ibdev"] = file(hca.name)
		sys[place+"infiniband_verbs/uverbs"+digit+"/device"] = link("../..")
		sys[place+"driver"] = link("../../../bus/pci/drivers/" + hca.driver)
		if hca.driver == "hfi1" {
			sys["class/hfi1_user/hfi1_"+digit] = link("../../devices/virtual/hfi1_user/hfi1_" + digit)
			sys["devices/virtual/hfi1_user/hfi1_"+digit+"/dev"] = file("1:5")
		}
	}
	open, all := Access{Mode: 0o666}, []string{"hfi1_0", "hfi1_1", "hfi1_2"}
	for toml, restricted := range map[string][]string{
		"": all,
		"[[hca]]\nindex = 0\nmatch = \"rdma=hfi1_0\"\n":       all[:1],
		"[[hca]]\nindex = 0\nmatch = \"rdma=ibp32s0\"\n":      all[1:],
		"[[hca]]\nindex = 0\nmatch = \"pci=0000:02:00.0\"\n":  all[1:],
		"[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\n":       nil,
		"[[hca]]\nindex = 0\nmatch = \"rdma=no_such_hca0\"\n": nil,
	} {
		for _, name := range all {
			os.Remove(filepath.Join(top, name))
			if err := Make(filepath.Join(top, name), 1, 5, open); err != nil {
				t.Fatal(err)
			}
		}
		if err := (Nodes{Config: restricting(t, toml), Sys: sys, Dev: dev, Known: filepath.Join(t.TempDir(), "closed")}).Restrict(); err != nil {
			t.Fatal(err)
		}
		for _, name := range all {
			want := open
			if slices.Contains(restricted, name) {
				want = RootAlone()
			}
			if now, err := Stat(filepath.Join(top, name)); err != nil || now != want {
				t.Errorf("with %q %s is %+v, wanted %+v: %v", toml, name, now, want, err)
			}
		}
	}
}

// Each job's prolog looks at all device nodes of the node, and nearly all of them are restricted.
func TestOfARestrictedDeviceNodeNobodyAsksWhoseItIs(t *testing.T) {
	dev := deviceFolder(t)
	for _, name := range []string{"uverbs0", "umad0", "rdma_cm"} {
		if err := Make(filepath.Join(dev, name), 1, 3, RootAlone()); err != nil {
			t.Fatal(err)
		}
	}
	n := Nodes{Config: restricting(t, "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\n"), Sys: unread{fstest.MapFS{}, t}, Dev: dev, Known: filepath.Join(t.TempDir(), "closed")}
	if err := n.Restrict(); err != nil {
		t.Error(err)
	}
	if restricted, err := Folder(dev).IsRestricted(); err != nil || !restricted {
		t.Errorf("the folder is restricted: %v, %v", restricted, err)
	}
}

// unread is a file system that fails the test if a file is read.
type unread struct {
	fstest.MapFS
	t *testing.T
}

func (u unread) Open(name string) (fs.File, error) {
	u.t.Errorf("%s is read", name)
	return u.MapFS.Open(name)
}

func (u unread) ReadLink(name string) (string, error) {
	u.t.Errorf("the link %s is read", name)
	return u.MapFS.ReadLink(name)
}
