package vm

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
// GRESNET_PROBE: it opens every uverbs device that it can name, in the folders
// of a list like PATH, and asks it for a context, all at one time.
func probe(list string) int {
	var nodes []string
	for _, dir := range filepath.SplitList(list) {
		found, _ := filepath.Glob(filepath.Join(dir, "uverbs*"))
		nodes = append(nodes, found...)
	}
	failed := 0
	for _, node := range nodes {
		f, err := getContext(node)
		if err != nil {
			fmt.Printf("%s: %v\n", node, err)
			failed++
			continue
		}
		defer f.Close()
		fmt.Printf("%s: context\n", node)
	}
	if len(nodes) == 0 || failed > 0 {
		return 1
	}
	return 0
}

// getContext returns the first thing that every verbs program does with a device:
// IB_USER_VERBS_CMD_GET_CONTEXT by write(2), as rdma/ib_user_verbs.h has it.
func getContext(node string) (*os.File, error) {
	f, err := os.OpenFile(node, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	answer := make([]byte, 8)
	request := make([]byte, 16)
	binary.NativeEndian.PutUint32(request, 0)     // command
	binary.NativeEndian.PutUint16(request[4:], 4) // words in
	binary.NativeEndian.PutUint16(request[6:], 2) // words out
	binary.NativeEndian.PutUint64(request[8:], uint64(uintptr(unsafe.Pointer(&answer[0]))))
	if _, err := unix.Write(int(f.Fd()), request); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ProbeProgram puts the test binary where every user can run it.
func ProbeProgram(t *testing.T) string {
	t.Helper()
	const path = "/tmp/guest.test"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	Run(t, "install -m 755 "+self+" "+path)
	return path
}
