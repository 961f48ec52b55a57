package detach

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"gresnet/lib/words/hint"
)

// Behind runs this program a second time, with one more argument, in a process that slurmd does not end, and
// waits until that one has gone behind (see Back) or ended. Until then what it says is what this program says.
// After an error it does nothing any more, and this program has to do the work.
func Behind(argument string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	again := exec.Command("/proc/self/exe", append(os.Args[1:], argument)...)
	again.Args[0] = os.Args[0]
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.ExtraFiles = []*os.File{write}
	again.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = again.Start()
	write.Close()
	if err != nil {
		return err
	}
	if n, _ := read.Read(make([]byte, 1)); n == 1 {
		return nil
	}
	return again.Wait()
}

// Back returns what has this run, which Behind began, go behind: it lets go of slurmd's pipes and has the program in
// front end. It is called early, so that no other program gets the pipe to the one in front.
func Back() (goBehind func() error) {
	unix.CloseOnExec(socket)
	front := os.NewFile(socket, "the program in front")
	return sync.OnceValue(func() error {
		defer front.Close()
		nowhere, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer nowhere.Close()
		err = hint.Join(unix.Dup3(int(nowhere.Fd()), 1, 0), unix.Dup3(int(nowhere.Fd()), 2, 0))
		if err != nil {
			return err
		}
		if _, err = front.Write([]byte{0}); errors.Is(err, unix.EPIPE) {
			return nil // slurmd's time was over, and it has ended the program in front
		}
		return err
	})
}
