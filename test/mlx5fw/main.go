// mlx5fw is the firmware of ConnectX HCAs that the kernel's own mlx5_core and mlx5_ib drive: each
// is a PCI device of QEMU's, by vfio-user. See README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	log.SetFlags(log.Lmicroseconds)
	folder := flag.String("folder", "", "where the sockets are made, 0, 1 and so on")
	var cards cards
	flag.IntVar(&cards.roce, "roce", 0, "cards of RoCE, the first of each node")
	flag.IntVar(&cards.pairs, "pairs", 0, "cards of RoCE that have two functions, the next")
	flag.IntVar(&cards.ib, "ib", 0, "cards of InfiniBand, the last")
	flag.IntVar(&cards.nodes, "nodes", 1, "nodes on the same switch that have all these")
	flag.DurationVar(&cards.train, "train", 0, "how long a link takes to come up")
	flag.BoolVar(&cards.verbose, "v", false, "log each command")
	once := flag.Bool("once", false, "end when each QEMU has let go of its HCA")
	flag.Parse()
	all := cards.functions()
	if len(all) == 0 || flag.NArg() != 0 {
		log.Fatal("no HCA. Hint: mlx5fw -folder FOLDER -roce 2")
	}
	done := make(chan error)
	for _, f := range all {
		listener, err := listen(filepath.Join(*folder, f.name))
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			for {
				err := f.accept(listener)
				if err != nil {
					log.Print(err)
				}
				if *once {
					done <- err
					return
				}
			}
		}()
	}
	go control(filepath.Join(*folder, "control"), all)
	for range all {
		<-done
	}
}

// cards says which HCAs there are.
type cards struct {
	roce, pairs, ib, nodes int
	train                  time.Duration
	verbose                bool
}

// functions returns the firmware of each function, all on one switch. They are named by their numbers.
func (c cards) functions() (all []*firmware) {
	wire := func() []*firmware { return all }
	add := func(card int, sibling, infiniband bool) {
		i := len(all)
		all = append(all, newFirmware(fmt.Sprint(i), settings{index: i, card: card, sibling: sibling, deviceID: connectX6Dx,
			infiniband: infiniband, mac: 0xb83fd2_000000 + uint64(i)<<8, train: c.train, wire: wire, verbose: c.verbose}))
	}
	for range c.nodes {
		for range c.roce {
			add(len(all), false, false)
		}
		for range c.pairs {
			first := len(all)
			add(first, true, false)
			add(first, true, false)
		}
		for range c.ib {
			add(len(all), false, true)
		}
	}
	return all
}

func listen(path string) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// accept serves the next QEMU until it lets go of the device.
func (f *firmware) accept(listener *net.UnixListener) error {
	conn, err := listener.AcceptUnix()
	if err != nil {
		return err
	}
	defer conn.Close()
	f.reset()
	if err := f.serve(conn); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// control does what is added to a file, a line each: "fail 0" is a fatal fault of the first
// HCA's firmware, "out 0" and "in 0" pull its cable and put it back, and "show 0" logs its registers. "slow 0 300ms"
// delays its answers to commands, and "refuse 0 CREATE_SQ" has it fail one of them. The guest may share the folder, and
// so do it itself.
func control(path string, all []*firmware) {
	for done := 0; ; time.Sleep(50 * time.Millisecond) {
		text, _ := os.ReadFile(path)
		lines := strings.Split(string(text), "\n")
		for ; done < len(lines)-1; done++ {
			if err := order(lines[done], all); err != nil {
				log.Printf("%s: %v", path, err)
			} else {
				log.Print(lines[done])
			}
		}
	}
}

// order does one line of the control file.
func order(line string, all []*firmware) error {
	var what, more string
	var n int
	if words, _ := fmt.Sscan(line, &what, &n, &more); words < 2 || n < 0 || n >= len(all) {
		return fmt.Errorf("%q names no HCA", line)
	}
	f := all[n]
	delay, err := time.ParseDuration(more)
	if what == "slow" && err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	if what == "refuse" && more != "" && !slices.Contains(slices.Collect(maps.Values(opcodes)), more) {
		return fmt.Errorf("%q names no command", line)
	}
	deed := map[string]func(){
		"fail":   f.fail,
		"out":    func() { f.unplugged = true; f.setCarrier(false) },
		"in":     func() { f.unplugged = false; f.setCarrier(true) },
		"show":   f.show,
		"slow":   func() { f.delay = delay },
		"refuse": func() { f.refused = more },
	}[what]
	if deed == nil {
		return fmt.Errorf("%q is none of fail, out, in, show, slow and refuse", line)
	}
	f.alone(deed)
	return nil
}
