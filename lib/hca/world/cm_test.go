package world

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/kernel/rdma"
	"gresnet/lib/state"
)

// As since kernel 7.3 it can be: one is on the node, and one in a job.
func TestWhatRDMACMHasIsLeftAloneWhereTwoDevicesHaveOneName(t *testing.T) {
	for _, c := range []struct {
		devices []string
		alone   bool
	}{
		{[]string{"mlx5_0", "mlx5_1"}, false},
		{[]string{"mlx5_1", "mlx5_1", "mlx5_0"}, false},
		{[]string{"mlx5_0", "mlx5_1", "mlx5_0"}, true},
	} {
		sys := fstest.MapFS{"class/infiniband_verbs/abi_version": {Data: []byte("6\n")}}
		for n, name := range c.devices {
			place := fmt.Sprintf("devices/pci0000:00/0000:0%d:00.0/infiniband_verbs/uverbs%[1]d", n)
			sys[fmt.Sprintf("class/infiniband_verbs/uverbs%d", n)] = &fstest.MapFile{Data: []byte("../../" + place), Mode: fs.ModeSymlink}
			sys[place+"/ibdev"] = &fstest.MapFile{Data: []byte(name + "\n")}
		}
		folder := t.TempDir()
		port := filepath.Join(folder, "mlx5_0/ports/1")
		tos := filepath.Join(port, "default_roce_tos")
		if err := os.MkdirAll(port, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"default_roce_mode": "RoCE v2\n", "default_roce_tos": "106\n"} {
			if err := os.WriteFile(filepath.Join(port, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var said []string
		w := &World{Given: Given{Sys: sys, CM: folder, Dir: state.Lease(t.TempDir()), Notice: func(format string, a ...any) { said = append(said, fmt.Sprintf(format, a...)) }}}
		read, err := w.ReadCM("mlx5_0")
		if err != nil || (len(read) == 0) != c.alone {
			t.Errorf("of %v it reads %v, %v", c.devices, read, err)
		}
		for range 2 {
			if err := w.ApplyCM("mlx5_0", []rdma.CM{{Port: 1, Mode: "RoCE v2", TOS: "26"}}); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(tos)
		if got := strings.TrimSpace(string(text)); err != nil || (got == "106") != c.alone {
			t.Errorf("of %v the type of service is %q then, %v", c.devices, got, err)
		}
		if c.alone != (len(said) == 1) || c.alone && !strings.Contains(said[0], "2 RDMA devices of the node are called mlx5_0") {
			t.Errorf("of %v it says %q", c.devices, said)
		}
	}
}
