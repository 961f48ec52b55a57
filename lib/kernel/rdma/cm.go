package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
)

// CM is what RDMA-CM gives connections by a port that do not say it themselves. A move of
// the RDMA device leaves nothing of it (cma.c:cma_add_one).
type CM struct {
	Port uint32 `json:"port"`
	Mode string `json:"mode"` // RoCE's version, as the kernel writes it: "RoCE v2"
	TOS  string `json:"tos"`  // type of service
}

// files returns where these stand in the folder of a port.
func (c *CM) files() []cmFile {
	return []cmFile{{"default_roce_mode", &c.Mode}, {"default_roce_tos", &c.TOS}}
}

type cmFile struct {
	name  string
	value *string
}

// CMFolder is where RDMA-CM shows what it has: a folder of each device in configfs, which
// is there for as long as somebody wants it (cma_configfs.c:make_cma_dev). Nothing is
// there where the node has no RDMA-CM or shows no configfs, and of a device that RDMA-CM
// does not take.
type CMFolder struct {
	Path  string // /sys/kernel/config/rdma_cm; empty: it is not kept
	Notes string // a directory that names the folders that are ours while they are there
}

// Read reads what RDMA-CM has for a device's ports.
func (f CMFolder) Read(device string) (all []CM, err error) {
	err = f.with(device, func(ports string) (err error) {
		all, err = readCM(ports)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what RDMA-CM has for %s: %w", device, err)
	}
	return all, nil
}

// Apply writes what of that is not as it was, if may says so, which is asked then alone.
func (f CMFolder) Apply(device string, want []CM, may func() (bool, error)) error {
	if len(want) == 0 {
		return nil
	}
	err := f.with(device, func(ports string) error {
		var differing []CM
		have, err := readCM(ports)
		for _, w := range want {
			if i := slices.IndexFunc(have, func(c CM) bool { return c.Port == w.Port }); i >= 0 && have[i] != w {
				differing = append(differing, w)
			}
		}
		if err != nil || len(differing) == 0 {
			return err
		}
		if may, err := may(); !may {
			return err
		}
		return writeCM(ports, differing)
	})
	if err != nil {
		return fmt.Errorf("give RDMA-CM what it had for %s: %w", device, err)
	}
	return nil
}

// cmNote is how the note of a device's folder begins.
const cmNote = "rdma_cm."

// with calls do with the folder of a device's ports.
func (f CMFolder) with(device string, do func(ports string) error) (err error) {
	if f.Path == "" {
		return nil
	}
	path, note := filepath.Join(f.Path, device), filepath.Join(f.Notes, cmNote+device)
	if _, err := os.Stat(path); err == nil {
		return do(filepath.Join(path, "ports")) // an administrator's
	}
	if err := os.WriteFile(note, nil, 0o600); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.Remove(note)
		}
	}()
	err = os.Mkdir(path, 0o755)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	return hint.Join(do(filepath.Join(path, "ports")), os.Remove(path))
}

// Clean removes the folders that somebody who was killed has left.
func (f CMFolder) Clean() error {
	if f.Path == "" {
		return nil
	}
	notes, err := filepath.Glob(filepath.Join(f.Notes, cmNote+"*"))
	if err != nil {
		return err
	}
	for _, note := range notes {
		device := strings.TrimPrefix(filepath.Base(note), cmNote)
		if err := os.Remove(filepath.Join(f.Path, device)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the folder of %s in RDMA-CM's: %w", device, err)
		}
		if err := os.Remove(note); err != nil {
			return err
		}
	}
	return nil
}

func readCM(folder string) (all []CM, err error) {
	ports, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, p := range ports {
		port, err := strconv.ParseUint(p.Name(), 10, 32)
		if err != nil {
			return nil, err
		}
		c := CM{Port: uint32(port)}
		for _, f := range c.files() {
			text, err := os.ReadFile(filepath.Join(folder, p.Name(), f.name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // kernels before 4.7 have no type of service
			}
			if err != nil {
				return nil, err
			}
			*f.value = strings.TrimSpace(string(text))
		}
		all = append(all, c)
	}
	return all, nil
}

// writeCM writes what ports have; a kernel that lacks a file lacks what it would say.
func writeCM(folder string, want []CM) error {
	for _, w := range want {
		for _, f := range w.files() {
			file, err := os.OpenFile(filepath.Join(folder, strconv.FormatUint(uint64(w.Port), 10), f.name), os.O_WRONLY, 0)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if _, err := file.WriteString(*f.value); err != nil {
				return hint.Join(err, file.Close())
			}
			if err := file.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}
