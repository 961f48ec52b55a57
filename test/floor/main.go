// Command floor is what gresnet is measured against: it sends the kernel the
// requests that giving a job its HCAs and taking them back needs, and no other.
// It looks at nothing, records nothing and checks nothing: what it must know is
// handed to it ready made, and after a failure the node is as it happens to be.
//
//	floor            does nothing, which is what a process costs
//	floor in FILE    moves what the file names into a namespace of its own
//	floor out FILE   returns it
//
// It loses no time that the kernel waits: the RDMA devices move ahead in a second thread, and the
// interfaces follow.
//
// Its requests are the same for every version of gresnet: they stand in
// requests.txt, which a test holds against strace.
package main

import (
	"fmt"
	"os"
	"runtime"
)

// A thread is in a namespace, a goroutine is not.
func init() { runtime.LockOSThread() }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return nil
	}
	directions := map[string]func(input) error{"in": in, "out": out}
	if len(args) != 2 || directions[args[0]] == nil {
		return fmt.Errorf("usage: floor [in|out FILE]")
	}
	it, err := read(args[1])
	if err != nil {
		return err
	}
	return directions[args[0]](it)
}
