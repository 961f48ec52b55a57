package slurm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The keys of the lines that gresnet reads, of Slurm 22.05 to 26.11.
const (
	nodeKeys = "bcastaddr boards corespeccount corespersocket cpus cpuspeclist cpubind feature features gres gresconf " +
		"memspeclimit nodeaddr nodehostname parameters port procs realmemory reason restrictedcorespergpu sockets " +
		"socketsperboard state suspendtime threadspercore tmpdisk topology tresweights weight"
	gresKeys = "autodetect count cpus cores file files flags link links multiplefiles name type"
)

// wideKeys are those of slurm.conf that more keys may follow in their line.
const wideKeys = "downnodes frontendname nodename nodeset partitionname poweraction"

// Faults returns what slurmd refuses a slurm.conf for. Keys of other lines than NodeName's are not looked
// at: there are hundreds, and each Slurm has others.
func (c Conf) Faults() (all []error) {
	for _, l := range c {
		switch key := l.Keys[0].Key; {
		case key == "nodename":
			if err := l.knows(nodeKeys); err != nil {
				all = append(all, err)
			}
		case len(l.Keys) > 1 && !slices.Contains(strings.Fields(wideKeys), key):
			all = append(all, l.fault(fmt.Errorf("%s is not alone in its line", key)))
		}
	}
	err := c.nodes(func(n nodeLine) error {
		host, err := n.hosts()
		if err == nil {
			_, err = host(0)
		}
		return err
	})
	if err != nil {
		all = append(all, err)
	}
	return all
}

// GresFaults returns what slurmd refuses a gres.conf for.
func (c Conf) GresFaults() (all []error) {
	for _, l := range c {
		err := l.knows(gresKeys)
		switch key := l.Keys[0].Key; {
		case key == "autodetect" && len(l.Keys) > 1:
			err = l.fault(errors.New("autodetect is not alone in its line"))
		case key != "autodetect" && key != "name" && key != "nodename":
			err = l.fault(fmt.Errorf("no line begins with %s", key))
		}
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// knows is an error for a line that has another key after its first one than Slurm knows there.
func (l Line) knows(keys string) error {
	for _, p := range l.Keys[1:] {
		if !slices.Contains(strings.Fields(keys), p.Key) {
			return l.fault(fmt.Errorf("a line of %s has no %s", l.Keys[0].Key, p.Key))
		}
	}
	return nil
}

// alone is an error for a line that goes on into one of another kind: what either says is not certain then.
func (l Line) alone() error {
	for _, p := range l.Keys[1:] {
		if slices.Contains(strings.Fields(wideKeys), p.Key) {
			return fmt.Errorf("a line of %s has no %s", l.Keys[0].Key, p.Key)
		}
	}
	return nil
}
