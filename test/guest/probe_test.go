package guest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probe runs in place of the tests, as whoever starts the test binary with
// GRESNET_PROBE: it opens every uverbs device that it can name and asks it for a context.
func probe(dir string) int {
	nodes, _ := filepath.Glob(filepath.Join(dir, "uverbs*"))
	failed := 0
	for _, node := range nodes {
		if err := getContext(node); err != nil {
			fmt.Printf("%s: %v\n", node, err)
			failed++
			continue
		}
		fmt.Printf("%s: context\n", node)
	}
	if len(nodes) == 0 || failed > 0 {
		return 1
	}
	return 0
}

// getContext is the first thing that every verbs program does with a device:
// IB_USER_VERBS_CMD_GET_CONTEXT by write(2), as rdma/ib_user_verbs.h has it.
func getContext(node string) error {
	f, err := os.OpenFile(node, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	answer := make([]byte, 8)
	request := make([]byte, 16)
	binary.NativeEndian.PutUint32(request, 0)     // command
	binary.NativeEndian.PutUint16(request[4:], 4) // words in
	binary.NativeEndian.PutUint16(request[6:], 2) // words out
	binary.NativeEndian.PutUint64(request[8:], uint64(uintptr(unsafe.Pointer(&answer[0]))))
	_, err = unix.Write(int(f.Fd()), request)
	return err
}

// probeProgram puts the test binary where every user can run it.
func probeProgram(t *testing.T) string {
	t.Helper()
	const path = "/tmp/guest.test"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run(t, "install -m 755 "+self+" "+path)
	return path
}
