package slurmref

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	host "gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/slurm"
	"gresnet/test/seed"
)

// gpus returns GPUs in the order of their PCI addresses, whose minor numbers are in any.
func gpus(r *rand.Rand) (have []sysfs.GPU) {
	for i, minor := range r.Perm(4) {
		have = append(have, sysfs.GPU{Location: host.Location{PCI: fmt.Sprintf("0000:%02x:00.0", i)}, Minor: minor, Files: []string{fmt.Sprintf("/dev/nvidia%d", minor)}})
	}
	return have
}

// fakes returns what slurmd takes in place of what a library or a driver finds: a library says where each is in PCI's
// order, by its place among the links.
func fakes(have []sysfs.GPU, library bool) string {
	var b strings.Builder
	for i, g := range have {
		links := "(null)"
		if library {
			all := slices.Repeat([]string{"0"}, len(have))
			all[i] = "-1"
			links = strings.Join(all, ",")
		}
		fmt.Fprintf(&b, "a100|4|0-3|%s|%s|u%d|nvidia_gpu_env\n", links, g.Files[0], i)
	}
	return b.String()
}

// gpuFiles returns a gres.conf and a node's Gres= in slurm.conf. found tells whether slurmd is to find GPUs, by a library.
func gpuFiles(r *rand.Rand) (gres, promise string, found, library bool) {
	lines := []string{
		"", "Name=gpu File=/dev/nvidia[0-3]\n", "Name=gpu File=/dev/nvidia3\nName=gpu File=/dev/nvidia[0-2]\n",
		"NodeName=n1 Name=gpu File=/dev/nvidia[0-1]\nName=gpu File=/dev/nvidia[2-3]\n", "Name=gpu File=/dev/nvidia[3,0-1]\n",
	}
	promise = pick(r, "gpu:4", "gpu:4", "gpu:3", "gpu:2", "gpu:1")
	switch r.IntN(4) {
	case 0:
		return "AutoDetect=nvml\n" + pick(r, lines...), promise, true, true
	case 1:
		return "AutoDetect=nvidia\n" + pick(r, lines...), promise, true, false
	case 2:
		if r.IntN(2) == 0 {
			return "Name=gpu Type=80g File=/dev/nvidia[2-3]\nName=gpu Type=3090 File=/dev/nvidia[0-1]\n",
				pick(r, "gpu:80g:2,gpu:3090:2", "gpu:3090:2,gpu:80g:1", "gpu:3090:1", "gpu:80g:2(S:0)"), false, false
		}
		typed := pick(r, "Name=gpu Type=a File=/dev/nvidia[0-2]\nName=gpu Type=b File=/dev/nvidia3\n", "Name=gpu Type=b File=/dev/nvidia[2-3]\nName=gpu Type=a File=/dev/nvidia[0-1]\n")
		return typed, pick(r, "gpu:a:2,gpu:b:1", "gpu:b:1,gpu:a:2", "gpu:b:1", "gpu:3"), false, false
	}
	return "AutoDetect=off\n" + pick(r, lines[1:]...), promise, false, false
}

func TestGPUsAreNumberedAsSlurmdDoes(t *testing.T) {
	for _, suite := range Suites() {
		t.Run(suite, func(t *testing.T) {
			d := StartDaemon(t, suite)
			for i := range 4 {
				err := unix.Mknod(filepath.Join(d.root, fmt.Sprintf("dev/nvidia%d", i)), unix.S_IFCHR|0o600, int(unix.Mkdev(195, uint32(i))))
				if !errors.Is(err, unix.EEXIST) {
					use(t, err)
				}
			}
			r := seed.Rand()
			for range 60 {
				have := gpus(r)
				text, promise, found, library := gpuFiles(r)
				if suite == "bookworm" && strings.Contains(text, "=nvidia\n") {
					continue // it came with 24.11
				}
				node := "NodeName=n1 CPUs=4 Gres=" + promise + "\n"
				d.Write("gres.conf", text)
				d.Write("slurm.conf", d.Conf(node))
				use(t, os.RemoveAll(d.Path("fake_gpus.conf")))
				if found {
					d.Write("fake_gpus.conf", fakes(have, library))
				}
				numbered, why := d.Gres("gpu")
				conf, err := slurm.ParseFile("slurm.conf", node)
				use(t, err)
				lines, err := slurm.ParseFile("gres.conf", text)
				use(t, err)
				said, err := gres.SlurmGPUsOf(slurm.Conf(lines.Lines), slurm.Conf(conf.Lines), "n1")
				use(t, err)
				order, err := said.Order(have)
				use(t, err)
				var got, want []string
				for _, at := range order {
					i := slices.IndexFunc(have, func(g sysfs.GPU) bool { return g.PCI == at.PCI })
					got = append(got, have[i].Files[0])
				}
				for _, device := range numbered {
					_, file, _ := strings.Cut(device, " ")
					want = append(want, file)
				}
				if why != "" || !slices.Equal(got, want) {
					t.Fatalf("slurmd has %q %s, gresnet %q of %q\n%s%s", want, why, got, fakes(have, library), text, node)
				}
			}
		})
	}
}
