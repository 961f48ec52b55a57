package ports

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "compile the programs, which needs clang and libbpf-dev")

const object = "ports.o"

// compile compiles the programs. The object file has the sum of its source.
func compile(t *testing.T, sum string) []byte {
	t.Helper()
	machine, err := exec.Command("gcc", "-print-multiarch").Output()
	if err != nil {
		t.Fatalf("ask for the folder of the kernel's headers: %v", err)
	}
	to := filepath.Join(t.TempDir(), object)
	out, err := exec.Command("clang", "-O2", "-g0", "-target", "bpfel", "-mcpu=v2", "-Wall", "-Wextra", "-Werror",
		"-I/usr/include/"+strings.TrimSpace(string(machine)), `-DSUM="`+sum+`"`, "-c", "ports.c", "-o", to).CombinedOutput()
	if err != nil {
		t.Fatalf("compile ports.c: %v: %s", err, out)
	}
	image, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// section returns a section of an object file.
func section(t *testing.T, image []byte, name string) []byte {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	s := f.Section(name)
	if s == nil {
		t.Fatalf("the object file has no section %s", name)
	}
	data, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheProgramsAreThoseOfTheirSource(t *testing.T) {
	text, err := os.ReadFile("ports.c")
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(text)
	sum := hex.EncodeToString(hash[:])
	if *update {
		if err := os.WriteFile(object, compile(t, sum), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	had, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	if is := strings.TrimRight(string(section(t, had, "source")), "\x00"); is != sum {
		t.Fatalf("%s is of another source than ports.c: go test ./lib/kernel/ports -update", object)
	}
	version, err := exec.Command("clang", "-dumpversion").Output()
	by, _, _ := strings.Cut(string(section(t, had, "compiler")), "\x00")
	if err != nil || by != strings.TrimSpace(string(version)) {
		t.Logf("another clang than %s would make other code", by)
		return
	}
	if !bytes.Equal(compile(t, sum), had) {
		t.Errorf("%s is not what clang %s makes of ports.c: go test ./lib/kernel/ports -update", object, by)
	}
}
