// Package fusetest mounts FUSE file systems whose server leaves requests without an answer,
// as a user's may. It speaks the protocol of linux/fuse.h by hand. It is for tests only.
package fusetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/test/await"
	"gresnet/test/netnstest"
)

// Op is the kind of a request.
type Op uint32

// Requests that a test may leave without an answer (linux/fuse.h:fuse_opcode).
const (
	Any     Op = 0 // each, also what a mount begins with
	Lookup  Op = 1
	Getattr Op = 3
	Read    Op = 15
	Write   Op = 16
	Statfs  Op = 17
	Poll    Op = 40
)

// The others that the server knows.
const (
	forget      Op = 2
	open        Op = 14
	release     Op = 18
	flush       Op = 25
	initialize  Op = 26
	opendir     Op = 27
	interrupt   Op = 36
	batchForget Op = 42
)

// FS is a mounted file system. The names in it are File and, without an end, Folder.
type FS struct {
	Dir    string
	server int
	asked  chan Op // what was left without an answer

	mutex  sync.Mutex
	silent []Op
}

// Silence has the server leave requests without an answer from now on.
func (f *FS) Silence(silent ...Op) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.silent = silent
}

func (f *FS) isSilent(op Op) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Contains(f.silent, op) || slices.Contains(f.silent, Any)
}

// The names in a file system.
const (
	File   = "file"   // of one page; opened with O_NONBLOCK it bypasses the page cache
	Folder = "folder" // with the same in it as the root
)

// Mount mounts a file system with a source until the test ends. All users may use it.
// The server leaves silent requests without an answer until the file system is ended.
func Mount(t testing.TB, source string, silent ...Op) *FS {
	t.Helper()
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to mount")
	}
	exec.Command("modprobe", "-q", "fuse").Run() // where it is no module it is there, or not
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the kernel has no FUSE")
	}
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: what holds a request without an answer may be in the way of its removal.
	dir, err := os.MkdirTemp("", "fusetest")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", server)
	if err := unix.Mount(source, dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatal(err)
	}
	f := &FS{Dir: dir, server: server, silent: silent, asked: make(chan Op, 1000)}
	served := make(chan bool)
	go func() { f.serve(); close(served) }()
	t.Cleanup(func() {
		f.End()
		<-served
		unix.Close(server)
		os.Remove(dir)
	})
	return f
}

// End ends the file system: who waits for an answer has an error.
func (f *FS) End() {
	unix.Unmount(f.Dir, unix.MNT_FORCE|unix.UMOUNT_NOFOLLOW) // fuse/inode.c:fuse_umount_begin
	unix.Unmount(f.Dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
}

// Await waits until the server has left a request without an answer.
func (f *FS) Await(t testing.TB, want Op) {
	t.Helper()
	for await.Value(t, fmt.Sprintf("request %d has come", want), f.asked) != want {
	}
}

const (
	rootNode   = 1
	fileNode   = 2
	folderNode = 3
	headerSize = 40
	directIO   = 1 // FOPEN_DIRECT_IO
	keepCache  = 2 // FOPEN_KEEP_CACHE
)

func (f *FS) serve() {
	buffer := make([]byte, 1<<20)
	for {
		n, err := unix.Read(f.server, buffer)
		if err == unix.EINTR || err == unix.ENOENT || err == unix.EAGAIN {
			continue // ENOENT: the request was taken back
		}
		if err != nil {
			return
		}
		request := buffer[:n]
		op := Op(binary.NativeEndian.Uint32(request[4:]))
		if f.isSilent(op) {
			select {
			case f.asked <- op:
			default:
			}
			continue
		}
		if op == forget || op == batchForget || op == interrupt {
			continue
		}
		errno, answer := respond(op, binary.NativeEndian.Uint64(request[16:]), request[headerSize:])
		head := binary.NativeEndian.AppendUint32(nil, uint32(16+len(answer)))
		head = binary.NativeEndian.AppendUint32(head, uint32(-int32(errno)))
		head = append(head, request[8:16]...)
		unix.Write(f.server, append(head, answer...))
	}
}

func respond(op Op, node uint64, body []byte) (unix.Errno, []byte) {
	switch op {
	case initialize:
		out := make([]byte, 64)
		binary.NativeEndian.PutUint32(out, 7)
		binary.NativeEndian.PutUint32(out[4:], 31)
		binary.NativeEndian.PutUint32(out[20:], 4096) // max_write
		return 0, out
	case Lookup:
		name, _, _ := bytes.Cut(body, []byte{0})
		found := map[string]uint64{File: fileNode, Folder: folderNode}[string(name)]
		if found == 0 {
			return unix.ENOENT, nil
		}
		out := make([]byte, 40) // valid for no time: each walk asks again
		binary.NativeEndian.PutUint64(out, found)
		return 0, append(out, attributes(found)...)
	case Getattr:
		return 0, append(make([]byte, 16), attributes(node)...)
	case open, opendir:
		out := make([]byte, 16)
		flags := uint32(keepCache)
		if binary.NativeEndian.Uint32(body)&unix.O_NONBLOCK != 0 {
			flags |= directIO
		}
		binary.NativeEndian.PutUint32(out[8:], flags)
		return 0, out
	case Read:
		return 0, make([]byte, binary.NativeEndian.Uint32(body[16:]))
	case Poll:
		return 0, make([]byte, 8)
	case Statfs:
		return 0, make([]byte, 80)
	case release, flush:
		return 0, nil
	}
	return unix.ENOSYS, nil
}

// attributes returns a struct fuse_attr.
func attributes(node uint64) []byte {
	out := make([]byte, 88)
	binary.NativeEndian.PutUint64(out, node)
	mode := uint32(unix.S_IFDIR | 0o777)
	if node == fileNode {
		mode = unix.S_IFREG | 0o666
		binary.NativeEndian.PutUint64(out[8:], 4096)
	}
	binary.NativeEndian.PutUint32(out[60:], mode)
	binary.NativeEndian.PutUint32(out[64:], 1)
	return out
}
