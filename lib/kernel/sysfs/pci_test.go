package sysfs_test

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/base/node"
	"gresnet/lib/kernel/sysfs"
)

// functions lays out PCI functions: "0000:3b:00.0 below path: class, vendor".
func functions(t *testing.T, lines ...string) (links, files map[string]string) {
	t.Helper()
	links, files = map[string]string{}, map[string]string{}
	for _, line := range lines {
		f := strings.Fields(line)
		dir := "devices/" + f[1] + "/" + f[0]
		links["bus/pci/devices/"+f[0]] = "../../../" + dir
		files[dir+"/numa_node"] = "0\n"
		files[dir+"/class"] = f[2] + "\n"
		files[dir+"/vendor"] = f[3] + "\n"
	}
	return links, files
}

func addresses(all []sysfs.GPU) []string {
	var list []string
	for _, s := range all {
		list = append(list, s.PCI)
	}
	return list
}

func TestALocationIsThePathFromTheRootComplexDown(t *testing.T) {
	sys := tree(t, map[string]string{
		"bus/pci/devices/0000:3b:00.0": "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0",
		"bus/pci/devices/0009:01:00.0": "../../../devices/platform/NVDA1:00/pci0009:00/0009:00:00.0/0009:01:00.0",
		"bus/pci/devices/0001:01:00.0": "../../../devices/platform/1f00.pcie/pci0001:00/0001:00:00.0/0001:01:00.0", // no NUMA
	}, map[string]string{
		"devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/numa_node":                   "1\n",
		"devices/platform/NVDA1:00/pci0009:00/0009:00:00.0/0009:01:00.0/numa_node": "-1\n",
		"devices/platform/1f00.pcie/pci0001:00/0001:00:00.0/0001:01:00.0/class":    "0x020700\n",
	})
	for _, want := range []node.Location{
		{PCI: "0000:3b:00.0", Path: []string{"pci0000:3a", "0000:3a:00.0"}, NUMA: 1},
		{PCI: "0009:01:00.0", Path: []string{"pci0009:00", "0009:00:00.0"}, NUMA: -1},
		{PCI: "0001:01:00.0", Path: []string{"pci0001:00", "0001:00:00.0"}, NUMA: -1},
	} {
		if got, err := sysfs.Locate(sys, want.PCI); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if _, err := sysfs.Locate(sys, "0000:99:00.0"); err == nil || !strings.HasPrefix(err.Error(), "find PCI function 0000:99:00.0: ") {
		t.Errorf("a function that is not there: %v", err)
	}
}

func TestALocationHasTheDistancesToTheNodesThatAreOnline(t *testing.T) {
	files := map[string]string{
		"devices/pci0000:3a/0000:3a:00.0/numa_node": "4\n",
		"devices/system/node/online":                "0,2-4\n",
		"devices/system/node/node4/distance":        "32 22 12 10\n",
	}
	links := map[string]string{"bus/pci/devices/0000:3a:00.0": "../../../devices/pci0000:3a/0000:3a:00.0"}
	at, err := sysfs.Locate(tree(t, links, files), "0000:3a:00.0")
	if want := map[int]int{0: 32, 2: 22, 3: 12, 4: 10}; err != nil || !reflect.DeepEqual(at.Far, want) {
		t.Errorf("got %v, %v, want %v", at.Far, err, want)
	}
}

func TestGPUsAreInTheOrderOfTheirPCIAddresses(t *testing.T) {
	t.Run("AMD", func(t *testing.T) {
		links, files := functions(t,
			"0000:05:00.0 pci0000:00 0x038000 0x1002",
			"0000:85:00.0 pci0000:80 0x120000 0x1002",
			"0000:01:00.0 pci0000:00 0x030000 0x1a03",
		)
		links["class/drm/renderD129"] = "../../devices/pci0000:00/0000:05:00.0/drm/renderD129"
		links["class/drm/renderD128"] = "../../devices/pci0000:80/0000:85:00.0/drm/renderD128"
		links["class/drm/renderD130"] = "../../devices/pci0000:00/0000:01:00.0/drm/renderD130"
		links["class/drm/card0"] = "../../devices/pci0000:00/0000:01:00.0/drm/card0"
		got, err := sysfs.GPUs(tree(t, links, files), fstest.MapFS{})
		if want := []string{"0000:05:00.0", "0000:85:00.0"}; err != nil || !reflect.DeepEqual(addresses(got), want) {
			t.Fatalf("got %q, %v, want %q", addresses(got), err, want)
		}
		if want := []string{"/dev/dri/renderD128"}; !reflect.DeepEqual(got[1].Files, want) || got[1].Minor != 128 || got[1].Parts != 0 {
			t.Errorf("got %+v, want %q", got[1], want)
		}
	})
	t.Run("others", func(t *testing.T) {
		links, files := functions(t,
			"0000:b7:00.0 pci0000:b0 0x030200 0x10de",
			"0000:07:00.0 pci0000:00 0x030200 0x10de",
			"0000:01:00.0 pci0000:00 0x030000 0x1002",
			"0000:0c:00.0 pci0000:00 0x020700 0x15b3",
		)
		got, err := sysfs.GPUs(tree(t, links, files), fstest.MapFS{})
		if want := []string{"0000:07:00.0", "0000:b7:00.0"}; err != nil || !reflect.DeepEqual(addresses(got), want) {
			t.Errorf("got %q, %v, want %q", addresses(got), err, want)
		}
	})
	t.Run("for virtual machines", func(t *testing.T) {
		links, files := functions(t, "0000:07:00.0 pci0000:00 0x030200 0x10de", "0000:b7:00.0 pci0000:b0 0x030200 0x10de")
		links["devices/pci0000:b0/0000:b7:00.0/iommu_group"] = "../../../kernel/iommu_groups/12"
		got, err := sysfs.GPUs(tree(t, links, files), fstest.MapFS{})
		if err != nil || len(got) != 2 || len(got[0].Files) != 0 || !reflect.DeepEqual(got[1].Files, []string{"/dev/vfio/12"}) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("a display adapter, but no service processor's", func(t *testing.T) {
		links, files := functions(t, "0000:01:00.0 pci0000:00 0x030000 0x1a03", "0000:02:00.0 pci0000:00 0x030000 0x8086", "0000:00:03.0 pci0000:00 0x030000 0x1d0f")
		got, err := sysfs.GPUs(tree(t, links, files), fstest.MapFS{})
		if want := []string{"0000:02:00.0"}; err != nil || !reflect.DeepEqual(addresses(got), want) {
			t.Errorf("got %q, %v, want %q", addresses(got), err, want)
		}
	})
	t.Run("accelerators", func(t *testing.T) {
		links, files := functions(t,
			"0000:b3:00.0 pci0000:b0 0x120000 0x1da3", "0000:19:00.0 pci0000:10 0x120000 0x1da3", "0000:01:00.0 pci0000:00 0x030000 0x1a03",
		)
		links["class/accel/accel0"] = "../../devices/pci0000:b0/0000:b3:00.0/accel/accel0"
		links["class/accel/accel1"] = "../../devices/pci0000:10/0000:19:00.0/accel/accel1"
		links["class/accel/accel_controlD1"] = "../../devices/pci0000:10/0000:19:00.0/accel/accel_controlD1"
		got, err := sysfs.GPUs(tree(t, links, files), fstest.MapFS{})
		if want := []string{"0000:19:00.0", "0000:b3:00.0"}; err != nil || !reflect.DeepEqual(addresses(got), want) {
			t.Fatalf("got %q, %v, want %q", addresses(got), err, want)
		}
		if want := []string{"/dev/accel/accel1"}; !reflect.DeepEqual(got[0].Files, want) || got[0].Minor != 1 {
			t.Errorf("got %+v, want %q", got[0], want)
		}
	})
	t.Run("none", func(t *testing.T) {
		if got, err := sysfs.GPUs(fstest.MapFS{}, fstest.MapFS{}); err != nil || got != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("a driver that says nothing of minors", func(t *testing.T) {
		proc := fstest.MapFS{"driver/nvidia/gpus/0000:07:00.0/information": &fstest.MapFile{Data: []byte("Model: NVIDIA\n")}}
		if _, err := sysfs.GPUs(fstest.MapFS{}, proc); err == nil || !strings.HasSuffix(err.Error(), "it has no device minor") {
			t.Errorf("error %v", err)
		}
	})
}

func TestAGPUOfNVIDIAHasItsMinorAndItsPartsUnlessItIsExcluded(t *testing.T) {
	links, files := functions(t,
		"0000:07:00.0 pci0000:00 0x030200 0x10de", "0000:0f:00.0 pci0000:00 0x030200 0x10de",
		"0000:47:00.0 pci0000:40 0x030200 0x10de", "10000:01:00.0 pci10000:00 0x030200 0x10de",
	)
	links["class/drm/card1"] = "../../devices/pci0000:00/0000:07:00.0/drm/card1"
	links["class/drm/card1-DP-1"] = "../../devices/pci0000:00/0000:07:00.0/drm/card1/card1-DP-1"
	proc := fstest.MapFS{}
	for pci, text := range map[string]string{
		"0000:07:00.0": "Device Minor: \t 2\nGPU Excluded:\t No\n", "0000:0F:00.0": "Device Minor: \t 1\nGPU Excluded:\t Yes\n",
		"0000:47:00.0": "Device Minor: \t 0\n", "10000:01:00.0": "Device Minor: \t 3\n",
	} {
		proc["driver/nvidia/gpus/"+pci+"/information"] = &fstest.MapFile{Data: []byte(text)}
	}
	const mig = "driver/nvidia/capabilities/gpu0/mig/"
	for _, name := range []string{"config", "gi1/access", "gi1/ci0/access", "gi1/ci1/access", "gi2/ci0/access"} {
		proc[mig+name] = &fstest.MapFile{}
	}
	proc[mig+"gi1/access"].Data = []byte("DeviceFileMinor: 336\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
	proc[mig+"gi1/ci1/access"].Data = []byte("DeviceFileMinor: 338\nDeviceFileMode: 292\n")
	got, err := sysfs.GPUs(tree(t, links, files), proc)
	if want := []string{"0000:07:00.0", "0000:47:00.0", "10000:01:00.0"}; err != nil || !reflect.DeepEqual(addresses(got), want) {
		t.Fatalf("got %q, %v, want %q", addresses(got), err, want)
	}
	if want := []string{"/dev/nvidia2", "/dev/dri/card1"}; !reflect.DeepEqual(got[0].Files, want) || got[0].Minor != 2 || got[0].Parts != 0 {
		t.Errorf("got %+v, want %q", got[0], want)
	}
	if want := []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap336", "/dev/nvidia-caps/nvidia-cap338"}; !reflect.DeepEqual(got[1].Files, want) || got[1].Minor != 0 || got[1].Parts != 3 {
		t.Errorf("got %+v, want 3 parts and %q", got[1], want)
	}
}

func TestThePartitionsOfAnAMDGPUAreItsOwn(t *testing.T) {
	links, files := functions(t, "0000:05:00.0 pci0000:00 0x120000 0x1002", "0001:85:00.0 pci0001:80 0x120000 0x1002")
	links["class/drm/renderD128"] = "../../devices/pci0000:00/0000:05:00.0/drm/renderD128"
	links["class/drm/renderD129"] = "../../devices/platform/amdgpu_xcp_0/drm/renderD129"
	links["class/drm/renderD130"] = "../../devices/pci0001:80/0001:85:00.0/drm/renderD130"
	links["class/drm/renderD131"] = "../../devices/platform/amdgpu_xcp_1/drm/renderD131"
	for name, text := range map[string]string{
		"0": "cpu_cores_count 96\nlocation_id 0\ndomain 0\ndrm_render_minor 0\n",
		"1": "location_id 1280\ndomain 0\ndrm_render_minor 128\n", "2": "location_id 1281\ndomain 0\ndrm_render_minor 129\n",
		"3": "location_id 34048\ndomain 1\ndrm_render_minor 130\n", "4": "location_id 34049\ndomain 1\ndrm_render_minor 131\n",
	} {
		files["class/kfd/kfd/topology/nodes/"+name+"/properties"] = text
	}
	got, err := sysfs.GPUs(tree(t, links, files), fstest.MapFS{})
	if err != nil || len(got) != 2 {
		t.Fatalf("got %+v, %v", got, err)
	}
	for i, want := range [][]string{{"/dev/dri/renderD128", "/dev/dri/renderD129"}, {"/dev/dri/renderD130", "/dev/dri/renderD131"}} {
		if !reflect.DeepEqual(got[i].Files, want) || got[i].Parts != 2 {
			t.Errorf("got %+v, want %q", got[i], want)
		}
	}
}

func TestAnHCAOfTheNVSwitchesIsKnownByItsProductData(t *testing.T) {
	links, files := functions(t,
		"0000:05:00.0 pci0000:00 0x020700 0x15b3", "0000:14:00.0 pci0000:00 0x020700 0x15b3", "0000:15:00.0 pci0000:00 0x020700 0x15b3", "0000:16:00.0 pci0000:00 0x020700 0x10de")
	for pci, vpd := range map[string]string{"0000:05:00.0": "\x82\x20Nvidia\x90V3SMDL=SW_MNG\x79", "0000:14:00.0": "\x82\x20Nvidia ConnectX-7\x79", "0000:15:00.0": "", "0000:16:00.0": "SW_MNG"} {
		files["devices/pci0000:00/"+pci+"/device"] = "0x1021\n"
		if vpd != "" {
			files["devices/pci0000:00/"+pci+"/vpd"] = vpd
		}
	}
	sys := tree(t, links, files)
	for pci, want := range map[string]bool{"0000:05:00.0": true, "0000:14:00.0": false, "0000:15:00.0": false, "0000:16:00.0": false, "0000:99:00.0": false} {
		if got := sysfs.ManagesSwitches(sys, pci); got != want {
			t.Errorf("%s: %v", pci, got)
		}
	}
}

func TestCPUsAreCounted(t *testing.T) {
	for text, want := range map[string]int{"0": 1, "0-15": 16, "0-3,8,10-11": 7} {
		sys := tree(t, nil, map[string]string{"devices/system/cpu/online": text + "\n"})
		if got, err := sysfs.CPUs(sys); err != nil || got != want {
			t.Errorf("%q is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "3-0", "0-99999999"} {
		sys := tree(t, nil, map[string]string{"devices/system/cpu/online": text + "\n"})
		if got, err := sysfs.CPUs(sys); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
