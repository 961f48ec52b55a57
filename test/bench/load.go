package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountsAt is where the mounts are that no HCA has to do with.
const mountsAt = "/run/other-mounts"

// others are the processes that the case before has left.
var others []*exec.Cmd

// fillNode gives the node the nftables rules, mounts and processes of a case in place of those of the case before.
func fillNode(c testCase) error {
	for _, cmd := range others {
		cmd.Process.Kill()
		cmd.Wait()
	}
	others = nil
	old, err := filepath.Glob(mountsAt + "/*")
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := unix.Unmount(path, 0); err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if err := filter(c.Rules); err != nil {
		return err
	}
	for n := range c.Mounts {
		path := fmt.Sprintf("%s/%d", mountsAt, n)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("other", path, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	for range c.Processes {
		cmd := exec.Command("sleep", "infinity")
		if err := cmd.Start(); err != nil {
			return err
		}
		others = append(others, cmd)
	}
	return nil
}

// filter gives the node so many rules of nftables, in one chain.
func filter(rules int) error {
	if err := shell("if nft list table inet other >/dev/null 2>&1; then nft delete table inet other; fi"); err != nil || rules == 0 {
		return err
	}
	var text strings.Builder
	text.WriteString("table inet other {\nchain forward {\ntype filter hook forward priority 0\n")
	for n := range rules {
		fmt.Fprintf(&text, "ip daddr 100.%d.%d.1 tcp dport 22 counter drop\n", 64+n/256, n%256)
	}
	text.WriteString("}\n}\n")
	return feed(text.String(), "nft", "-f", "-")
}

// curves returns the table of what much on the node costs: for a tenth of it and all, gresnet's time of the first case's,
// on a node without it.
func (r results) curves() string {
	if len(r.Cases) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("| the node has | a tenth of them: prolog, epilog | all of them |\n| --- | --- | --- |\n")
	of := func(m measured) string {
		return m.both(func(way string) (float64, bool) {
			took, there := m.median("gresnet", way)
			without, was := r.Cases[0].median("gresnet", way)
			return took / without, there && was
		}, "%.2f")
	}
	for pair := range slices.Chunk(r.Cases[1:], 2) {
		all := pair[len(pair)-1]
		fmt.Fprintf(&b, "| %s | %s | %s |\n", all.Name, of(pair[0]), of(all))
	}
	return b.String()
}
