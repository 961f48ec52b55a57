package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// measure measures cases, on a node that is all theirs, and writes what it has after
// each. None begins once the time that they may take is over.
func measure(form string, cases []testCase, limit time.Duration, programs, cni, file string) error {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	r := results{Form: form, Kernel: strings.TrimSpace(string(kernel))}
	here, err := os.Executable()
	if err != nil {
		return err
	}
	repo := filepath.Join(filepath.Dir(here), "..")
	folder, err := near(filepath.Join(repo, "test/bench"), "script")
	if err != nil {
		return err
	}
	if programs, err = near(programs, "floor", "gresnet", "gresnet-prolog", "gresnet-epilog"); err != nil {
		return err
	}
	if err := installRules(filepath.Join(repo, "packaging/systemd/udev.rules"), programs); err != nil {
		return err
	}
	tools := []tool{floor(programs), gresnet(programs), script(folder, "script"), script(folder, "plain", "PLAIN=1")}
	if cni != "" {
		if cni, err = near(cni, "host-device", "static", "rdma"); err != nil {
			return err
		}
		tools = append(tools, plugins(cni))
	}
	// rdma takes a namespace by name only, that of the node, too. The kernel does
	// not count it as another.
	if err := shell("ip netns attach host 1"); err != nil {
		return err
	}
	end := hostTime().Add(limit)
	for i, c := range cases {
		start := hostTime()
		if !start.Before(end) {
			fmt.Fprintf(os.Stderr, "%s: left out, the time is over\n", c.Name)
			continue
		}
		if err := r.measure(c, tools, start.Add(share(end.Sub(start), cases[i:]))); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		if err := r.write(file); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: %d rounds, %.0f s\n", c.Name, r.Cases[len(r.Cases)-1].rounds(), hostTime().Sub(start).Seconds())
	}
	return nil
}

// hostTime returns the time of the machine that the VM runs on, in seconds: the VM's own clock
// counts instructions. QEMU's real-time clock tells it.
func hostTime() time.Time {
	text, err := os.ReadFile("/sys/class/rtc/rtc0/since_epoch")
	if err != nil {
		panic(err) // this is no VM of test/vm
	}
	var seconds int64
	if _, err := fmt.Sscan(string(text), &seconds); err != nil {
		panic(err)
	}
	return time.Unix(seconds, 0)
}

// near copies programs to where a start of them waits for nobody: the repo is the host's.
func near(folder string, names ...string) (string, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// share returns what the first of the cases that are left has of the time that is left.
func share(left time.Duration, cases []testCase) time.Duration {
	all := 0
	for _, c := range cases {
		all += c.weight
	}
	return left * time.Duration(cases[0].weight) / time.Duration(all)
}

// measure measures one case: a round is every tool once, in and out. The first
// warms up and compares what the tools have done. After the second none begins
// that would not be over in time, and what gresnet is compared with besides the floor
// is left out once the time is over.
func (r *results) measure(c testCase, tools []tool, end time.Time) error {
	list, err := setUp(c)
	if err != nil {
		return err
	}
	m := measured{testCase: c, Samples: samples{}}
	took := map[string]time.Duration{}
	for round := 0; round <= c.rounds && (round < 2 || end.Sub(hostTime()) > needs(tools, took, c, round)); round++ {
		check := ""
		for _, t := range tools {
			if !t.takesPart(c, round) || t.other && hostTime().After(end) {
				continue
			}
			start := hostTime()
			s := m.Samples
			if round == 0 {
				s, t = samples{}, t.weighed()
			}
			lost, err := t.round(c, list, s, round == 0, &check)
			if err != nil {
				return fmt.Errorf("round %d: %s: %w", round, t.name, err)
			}
			if lost != nil {
				m.Lost = map[string][]string{t.name: lost}
			}
			took[t.name] = hostTime().Sub(start)
		}
	}
	m.Peak, err = heaviest()
	r.Cases = append(r.Cases, m)
	return err
}

// needs returns how long a round will take, by how long each tool took last.
func needs(tools []tool, took map[string]time.Duration, c testCase, round int) (all time.Duration) {
	for _, t := range tools {
		if t.takesPart(c, round) {
			all += took[t.name]
		}
	}
	return all
}

// takesPart tells whether a tool is in a round of a case.
func (t tool) takesPart(c testCase, round int) bool {
	rounds := c.others
	switch {
	case !t.other:
		return true
	case t.name == "plain":
		rounds = c.plain
	case t.name == cniName:
		// It leaves the node other than it was, so the first round, which holds the two against each other, is without it.
		return c.plain > 0 && round == 1
	}
	return rounds > 0 && round <= rounds && c.HCAs > 0
}

// samples are milliseconds by tool and way.
type samples map[string][]float64

func (s samples) add(tool, way string, took time.Duration) {
	key := tool + " " + way
	s[key] = append(s[key], float64(took.Microseconds())/1000)
}

// round takes a case's HCAs into jobs and returns them. Of a tool that is known not to return all it returns
// what is lost.
func (t tool) round(c testCase, list []hca, s samples, check bool, same *string) (lost []string, err error) {
	if err := t.before(c, list); err != nil {
		return nil, err
	}
	var before []string
	if check || t.lossy {
		if before, err = onNode(); err != nil {
			return nil, err
		}
	}
	const node = "/proc/self/ns/net"
	if c.Train > 0 {
		if err := trained(node, list); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	took, err := t.timed(c, list, t.in)
	if err != nil {
		return nil, err
	}
	if t.waits(c) {
		if err := trained(t.netns(0), list); err != nil {
			return nil, err
		}
		took = time.Since(start)
	}
	s.add(t.name, "in", took)
	if err := settle(); err != nil {
		return nil, err
	}
	if check {
		if err := t.compare(c, list, same); err != nil {
			return nil, err
		}
	}
	start = time.Now()
	if took, err = t.timed(c, list, t.out); err != nil {
		return nil, err
	}
	if t.waits(c) {
		if err := trained(node, list); err != nil {
			return nil, err
		}
		took = time.Since(start)
	}
	s.add(t.name, "out", took)
	start = time.Now()
	if err := settle(); err != nil {
		return nil, err
	}
	s.add(t.name, "udev", time.Since(start))
	if t.lossy {
		if lost, err = differing(before); err != nil {
			return nil, err
		}
	}
	if err := t.after(list); err != nil {
		return nil, err
	}
	// udev opens what came back; so does each of the tools that does not wait for it.
	if err := shell("chmod 600 /dev/infiniband/u*[0-9] 2>/dev/null || true"); err != nil {
		return nil, err
	}
	if check {
		err = restored(before)
	}
	return lost, err
}

// waits tells a tool that does not wait for links itself: a job could not begin.
func (t tool) waits(c testCase) bool { return c.Train > 0 && t.name == "floor" }

// compare holds what a job has against what another tool gave it. No other gives it a
// network of its own.
func (t tool) compare(c testCase, list []hca, same *string) error {
	if t.netns == nil || len(list) == 0 || c.Jobs > 1 || c.Nodes > 0 {
		return nil
	}
	has, err := inside(t.netns(0), t.dev(0))
	if err != nil {
		return err
	}
	if *same == "" {
		*same = has
	}
	if has != *same {
		return fmt.Errorf("the job has\n%s\nwhere the floor's has\n%s", has, *same)
	}
	return nil
}

// timed runs the programs of all jobs and returns how long all took.
func (t tool) timed(c testCase, list []hca, programs func(int, []hca) []*exec.Cmd) (time.Duration, error) {
	queues := make([][]*exec.Cmd, c.Jobs)
	for job := range c.Jobs {
		queues[job] = programs(job, ofJob(c, job, list))
	}
	errs := make([]error, c.Jobs)
	start := time.Now()
	if t.parallel {
		var wg sync.WaitGroup
		for job := range queues {
			wg.Go(func() { errs[job] = finish(queues[job]) })
		}
		wg.Wait()
	} else {
		for job := range queues {
			errs[job] = finish(queues[job])
		}
	}
	took := time.Since(start)
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return took, nil
}

// finish runs programs one after another.
func finish(commands []*exec.Cmd) error {
	for _, cmd := range commands {
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%v: %w: %s", cmd.Args, err, out.String())
		}
	}
	return nil
}
