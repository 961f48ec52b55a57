package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"gresnet/lib/kernel/netns"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/link/sysctl"
	"gresnet/lib/state"
)

// order is what a command that measures all of its cases is told.
type order struct {
	programs string // their folder
	rounds   int    // of each case
	file     string // for the results
	results  results
}

func readOrder(form string, args []string) (o order, err error) {
	f := flag.NewFlagSet(form, flag.ContinueOnError)
	f.StringVar(&o.programs, "programs", "bin", "folder of the programs")
	f.IntVar(&o.rounds, "rounds", 15, "of each case")
	if err := arguments(f, args, 1); err != nil {
		return o, err
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	o.file, o.results = f.Arg(0), results{Form: form, Kernel: strings.TrimSpace(string(kernel))}
	return o, err
}

// nativeCommand measures what a kernel without RDMA lets it: a job without an HCA, and the part of a
// lease that moves interfaces. Run it in network and mount namespaces of its own.
func nativeCommand(args []string) error {
	o, err := readOrder("native", args)
	if err != nil {
		return err
	}
	r := o.results
	dir, err := os.MkdirTemp("", "gresnet-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m, err := nativeStart(o.programs, dir, o.rounds)
	if err != nil {
		return err
	}
	r.Cases = append(r.Cases, m)
	cases := []testCase{{Name: "1 veth, link part", HCAs: 1}, {Name: "8 veth, link part", HCAs: 8}}
	for _, c := range load() {
		if c.Interfaces+c.Routes+c.Neighbors+c.Rules > 1 { // the link part has nothing to do with the rest
			c.Name = "1 veth, link part, " + c.Name
			cases = append(cases, c)
		}
	}
	for _, c := range cases {
		if err := errors.Join(fillNetwork(c, "bridge"), filter(c.Rules)); err != nil {
			return err
		}
		m, err := nativeLinks(o.programs, dir, c, o.rounds)
		if err != nil {
			return err
		}
		r.Cases = append(r.Cases, m)
	}
	return r.write(o.file)
}

// nativeStart measures a job without an HCA, which is all start and no kernel.
func nativeStart(programs, dir string, rounds int) (measured, error) {
	m := measured{testCase: testCase{Name: "no HCA", Mode: "none", Jobs: 1}, Samples: samples{}}
	file := filepath.Join(dir, "gresnet.toml")
	if err := os.WriteFile(file, []byte("[slurm]\nsource = [\"gpu\"]\n[overlay]\nkind = \"none\"\n"), 0o644); err != nil {
		return m, err
	}
	own := gresnet(programs)
	aside := func(cmds []*exec.Cmd) []*exec.Cmd {
		cmds[0].Args = append(cmds[0].Args, "--config", file, "--state", filepath.Join(dir, "state"))
		return cmds
	}
	in, out := own.in, own.out
	own.in = func(job int, list []hca) []*exec.Cmd { return aside(in(job, list)) }
	own.out = func(job int, list []hca) []*exec.Cmd { return aside(out(job, list)) }
	return m, m.alternate([]tool{floor(programs), own}, nil, rounds)
}

// nativeLinks measures moves of the ends of veth pairs, which are interfaces as
// HCAs' are but for the hardware below.
func nativeLinks(programs, dir string, c testCase, rounds int) (measured, error) {
	m := measured{testCase: c, Samples: samples{}}
	m.HCAs, m.Mode, m.Jobs = 0, "none", 1
	list, text := make([]hca, c.HCAs), ""
	for i := range list {
		list[i].link = fmt.Sprintf("n%dx%d", c.HCAs, i)
		text += fmt.Sprintf("link add %s type veth peer name peer%[1]s\nlink set peer%[1]s up\n", list[i].link)
	}
	if err := batch(text + settingsOf(list)); err != nil {
		return m, err
	}
	own := filepath.Join(dir, "part")
	if err := os.MkdirAll(own, 0o700); err != nil {
		return m, err
	}
	part, err := linkPart(own, list)
	if err != nil {
		return m, err
	}
	plain := floorOf(programs, func(int) string { return own + "/floor" })
	if err := plain.before(m.testCase, list); err != nil {
		return m, err
	}
	if err := m.alternate([]tool{plain, part}, list, rounds); err != nil {
		return m, err
	}
	text = ""
	for _, h := range list {
		text += "link del " + h.link + "\n"
	}
	return m, batch(text)
}

// alternate measures tools turn about; the first round warms up.
func (m *measured) alternate(tools []tool, list []hca, rounds int) error {
	c := testCase{Jobs: 1}
	for round := range rounds + 1 {
		for _, t := range tools {
			in, err := t.timed(c, list, t.in)
			if err != nil {
				return err
			}
			out, err := t.timed(c, list, t.out)
			if err != nil {
				return err
			}
			if round > 0 {
				m.Samples.add(t.name, "in", in)
				m.Samples.add(t.name, "out", out)
			}
		}
	}
	return nil
}

// linkPart returns gresnet's own code for interfaces, in a process as a prolog is one.
func linkPart(dir string, list []hca) (tool, error) {
	here, err := os.Executable()
	if err != nil {
		return tool{}, err
	}
	args := []string{dir}
	for _, h := range list {
		i, err := net.InterfaceByName(h.link)
		if err != nil {
			return tool{}, err
		}
		args = append(args, fmt.Sprint(i.Index))
	}
	way := func(way string) func(int, []hca) []*exec.Cmd {
		return func(int, []hca) []*exec.Cmd {
			return []*exec.Cmd{command(nil, here, append([]string{"part", way}, args...)...)}
		}
	}
	return tool{name: "gresnet", in: way("in"), out: way("out")}, nil
}

// partCommand does what a lease does of interfaces: read, record, move, restore, compare.
func partCommand(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: bench part in|out DIR INDEX [INDEX...]")
	}
	host, err := snapshot.Dial()
	if err != nil {
		return err
	}
	defer host.Close()
	own, err := netns.Current()
	if err != nil {
		return err
	}
	var indices []int
	for _, word := range args[2:] {
		index, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		indices = append(indices, index)
	}
	p := part{host: host, own: own, path: filepath.Join(args[1], "netns"), saved: filepath.Join(args[1], "settings")}
	if args[0] == "in" {
		return p.take(indices)
	}
	return p.give(indices)
}

type part struct {
	host  *snapshot.Conn
	own   *netns.NS
	path  string
	saved string
}

func (p part) take(indices []int) error {
	var all []snapshot.Settings
	err := p.host.Once(func() error {
		p.host.About(indices...)
		for _, index := range indices {
			s, err := p.host.Settings(index)
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		return nil
	})
	if err != nil {
		return err
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.saved, text, 0o600); err != nil {
		return err
	}
	job, err := netns.Create(p.path)
	if err != nil {
		return err
	}
	thread, err := job.Enter()
	if err != nil {
		return err
	}
	defer thread.Close()
	var there *snapshot.Conn
	if err := thread.Do(func() (err error) {
		there, err = snapshot.Dial()
		return errors.Join(err, sysctl.SkipDAD())
	}); err != nil {
		return err
	}
	for i, index := range indices {
		if err := p.host.Move(index, job.FD(), all[i].Name, all[i].Up); err != nil {
			return err
		}
		if err := thread.Do(func() error { return snapshot.Finished(there.Apply(index, all[i], snapshot.InJob)) }); err != nil {
			return err
		}
	}
	return nil
}

func (p part) give(indices []int) error {
	text, err := os.ReadFile(p.saved)
	if err != nil {
		return err
	}
	var all []snapshot.Settings
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	job, err := netns.Open(p.path)
	if err != nil {
		return err
	}
	for i, index := range indices {
		err := job.Do(func() error {
			there, err := snapshot.Dial()
			if err != nil {
				return err
			}
			defer there.Close()
			return there.Move(index, p.own.FD(), all[i].Name, false)
		})
		if err != nil {
			return err
		}
	}
	for i, index := range indices {
		if err := snapshot.Finished(p.host.Apply(index, all[i], snapshot.Returned)); err != nil {
			return err
		}
	}
	err = p.host.Once(func() error {
		p.host.About(indices...)
		for i, index := range indices {
			diff, err := p.host.Differences(index, all[i])
			if err != nil || len(diff) > 0 {
				return fmt.Errorf("restore %s: %q: %v", all[i].Name, diff, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return state.Unmount(p.path)
}
