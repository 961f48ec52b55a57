package vm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/admin/picture"
	"gresnet/test/netnstest"
)

// Picture returns the node as gresnet is held to restore it, see lib/admin/picture, and the list of the HCAs
// that jobs have.
func Picture(t *testing.T) string {
	t.Helper()
	text, err := pictureWithInUse()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func pictureWithInUse() (string, error) {
	text, err := picture.Take()
	if err != nil {
		return "", err
	}
	inUse, err := InUse()
	return text + inUse, err
}

// InUse returns the list of the HCAs that jobs have, as other programs read it.
func InUse() (string, error) {
	text, err := os.ReadFile("/run/gresnet/in-use")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// printPicture runs in place of the tests on another node.
func printPicture() int {
	text, err := pictureWithInUse()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Print(text)
	return 0
}

// Same fails the test unless the node is as it was.
func Same(t *testing.T, before string) {
	t.Helper()
	if diff := netnstest.Diff(before, Picture(t)); diff != "" {
		t.Errorf("the node is not as it was, before (-) and after (+):\n%s", diff)
	}
}

// SameInAnyOrder fails the test unless the node has what it had. A VF whose driver took it again is the last
// one in the lists of RDMA devices: the kernel lets nobody choose an RDMA device's index.
func SameInAnyOrder(t *testing.T, before string) {
	t.Helper()
	if diff := netnstest.Diff(Sorted(before), Sorted(Picture(t))); diff != "" {
		t.Errorf("the node is not as it was, before (-) and after (+):\n%s", diff)
	}
}

// Sorted returns a text with its lines in order.
func Sorted(lines string) string {
	return strings.Join(slices.Sorted(strings.SplitSeq(lines, "\n")), "\n")
}
