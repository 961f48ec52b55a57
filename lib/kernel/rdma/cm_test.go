package rdma

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// A folder stands in for configfs, which makes what is in that of a device.
func cmFolder(t *testing.T) (folder CMFolder, tos string) {
	t.Helper()
	folder = CMFolder{Path: t.TempDir(), Notes: t.TempDir()}
	port := filepath.Join(folder.Path, "mlx5_0", "ports", "1")
	if err := os.MkdirAll(port, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"default_roce_mode": "RoCE v2\n", "default_roce_tos": "106\n"} {
		if err := os.WriteFile(filepath.Join(port, name), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder, filepath.Join(port, "default_roce_tos")
}

func TestWhatRDMACMHasForADeviceIsRestored(t *testing.T) {
	folder, tos := cmFolder(t)
	had, err := folder.Read("mlx5_0")
	if want := []CM{{1, "RoCE v2", "106"}}; err != nil || !reflect.DeepEqual(had, want) {
		t.Fatalf("read %v, %v, wanted %v", had, err, want)
	}
	if err := os.WriteFile(tos, []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := folder.Apply("mlx5_0", had, always); err != nil {
		t.Fatal(err)
	}
	if now, err := folder.Read("mlx5_0"); err != nil || !reflect.DeepEqual(now, had) {
		t.Errorf("it has %v, %v, and had %v", now, err, had)
	}
	err = folder.Apply("mlx5_0", had, func() (bool, error) { return false, errors.New("it was asked") })
	if err != nil {
		t.Errorf("where nothing differs: %v", err)
	}
}

func TestWithoutRDMACMThereIsNothingToRestore(t *testing.T) {
	notes := t.TempDir()
	for _, path := range []string{"", filepath.Join(t.TempDir(), "rdma_cm")} {
		folder := CMFolder{path, notes}
		if had, err := folder.Read("mlx5_0"); err != nil || had != nil {
			t.Errorf("in %q there is %v, %v", path, had, err)
		}
		if err := folder.Apply("mlx5_0", []CM{{1, "RoCE v2", "106"}}, always); err != nil {
			t.Errorf("in %q: %v", path, err)
		}
	}
	if left, err := os.ReadDir(notes); err != nil || len(left) > 0 {
		t.Errorf("notes are left: %v, %v", left, err)
	}
}

func TestAFolderThatWasLeftIsRemovedUnlessItIsAnAdministrators(t *testing.T) {
	folder := CMFolder{Path: t.TempDir(), Notes: t.TempDir()}
	for _, device := range []string{"mlx5_0", "mlx5_1"} {
		if err := os.Mkdir(filepath.Join(folder.Path, device), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, device := range []string{"mlx5_1", "mlx5_2"} {
		if err := os.WriteFile(filepath.Join(folder.Notes, cmNote+device), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := folder.Clean(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(folder.Path, "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "mlx5_0" {
		t.Errorf("left are %v, %v, wanted mlx5_0", left, err)
	}
	if notes, err := os.ReadDir(folder.Notes); err != nil || len(notes) > 0 {
		t.Errorf("notes are left: %v, %v", notes, err)
	}
}

func always() (bool, error) { return true, nil }
