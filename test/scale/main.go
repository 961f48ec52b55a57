// Scale makes the state of a node with many HCAs and as many leases, in a folder, and tells what the
// programs take on it. No HCA and no job of it is there: the programs read, and find nothing to move.
// Each lease has a process with the title of its job's extern step.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/lease/step"
	"gresnet/lib/state"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run() error {
	programs := flag.String("programs", "bin", "folder of the programs")
	rounds := flag.Int("rounds", 5, "of each program; the best counts")
	flag.Parse()
	sizes := flag.Args()
	if len(sizes) == 0 {
		sizes = []string{"8", "64", "512"}
	}
	fmt.Printf("%6s  %-28s %9s %9s %9s\n", "leases", "", "CPU ms", "time ms", "MiB")
	for _, text := range sizes {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		if err := size(*programs, n, *rounds); err != nil {
			return err
		}
	}
	return nil
}

// size measures on a node of so many leases.
func size(programs string, leases, rounds int) (err error) {
	dir, err := os.MkdirTemp("", "gresnet-scale-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := fill(state.Dir(dir), leases); err != nil {
		return err
	}
	steps, err := externSteps(leases)
	defer func() {
		for _, s := range steps {
			s.Process.Kill()
			s.Wait()
		}
	}()
	if err != nil {
		return err
	}
	plain, counting := filepath.Join(dir, "plain.toml"), filepath.Join(dir, "counting.toml")
	text := "[slurm]\nsource = [\"gpu\"]\n[overlay]\nkind = \"none\"\n[access]\nhost = \"open\"\n"
	if err := errors.Join(os.WriteFile(plain, []byte(text), 0o644), os.WriteFile(counting, []byte(text+"[metrics]\nfile = \""+dir+"/metrics/gresnet.prom\"\n"), 0o644), os.Mkdir(dir+"/metrics", 0o755)); err != nil {
		return err
	}
	for _, c := range []struct{ name, program, config, arguments string }{
		{"status", "gresnet", plain, "status"},
		{"status --json", "gresnet", plain, "status --json"},
		{"cleanup, all jobs run", "gresnet", plain, "cleanup"},
		{"epilog without a lease", "gresnet-epilog", plain, ""},
		{"the same, and metrics", "gresnet-epilog", counting, ""},
	} {
		if err := measure(c.name, leases, rounds, func() *exec.Cmd {
			arguments := append([]string{"--config", c.config, "--state", dir}, strings.Fields(c.arguments)...)
			cmd := exec.Command(filepath.Join(programs, c.program), arguments...)
			cmd.Env = []string{"SLURM_JOB_ID=900000", "SLURM_JOB_UID=1000", "SLURMD_NODENAME=node1"}
			return cmd
		}); err != nil {
			return err
		}
	}
	return tables(dir, leases, rounds)
}

// measure runs a program some times, and prints the least that it took.
func measure(name string, leases, rounds int, command func() *exec.Cmd) error {
	var cpu, took, memory []float64
	for range rounds {
		cmd := command()
		begin := time.Now()
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, out)
		}
		took = append(took, time.Since(begin).Seconds()*1000)
		// Of the program and of its children, for which it has waited.
		cpu = append(cpu, (cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()).Seconds()*1000)
		memory = append(memory, float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024)
	}
	fmt.Printf("%6d  %-28s %9.1f %9.1f %9.1f\n", leases, name, slices.Min(cpu), slices.Min(took), slices.Min(memory))
	return nil
}

// tables measures the node table itself, in this process: to read it, and to change it under its lock.
func tables(dir string, leases, rounds int) error {
	file := table.Folder(dir)
	var read, change []float64
	for i := range rounds * 20 {
		begin := time.Now()
		if _, err := table.Folder(dir).Read(); err != nil {
			return err
		}
		read = append(read, time.Since(begin).Seconds()*1000)
		begin = time.Now()
		err := file.Update(context.Background(), func(t *table.Table) error {
			t.Claims[0].Run = strconv.Itoa(i)
			return nil
		})
		if err != nil {
			return err
		}
		change = append(change, time.Since(begin).Seconds()*1000)
	}
	fmt.Printf("%6d  %-28s %9s %9.2f\n", leases, "node table: read", "", slices.Min(read))
	fmt.Printf("%6d  %-28s %9s %9.2f\n", leases, "node table: change a claim", "", slices.Min(change))
	return nil
}

// fill writes a node table with as many HCAs as leases, and the leases.
func fill(dir state.Dir, leases int) error {
	if err := dir.Make(); err != nil {
		return err
	}
	t := table.Table{}
	for i := range leases {
		h := node.HCA{
			ID:   node.ID{GUID: fmt.Sprintf("%04x:0000:0000:0001", i), PCI: fmt.Sprintf("0000:%02x:%02x.%d", i/256, i/8%32, i%8)},
			Name: fmt.Sprintf("mlx5_%d", i), Driver: "mlx5_core",
			Ports: []node.Port{{Num: 1, LinkLayer: "Ethernet", State: "ACTIVE", Interface: fmt.Sprintf("eth%d", i)}},
		}
		c := table.Claim{HCA: h.ID, Name: h.Name, Job: job(i), Run: "0", UID: 1000, Since: time.Now()}
		t.HCAs, t.Claims = append(t.HCAs, h), append(t.Claims, c)
		if err := lease(dir.Lease(job(i)), job(i), h, c); err != nil {
			return err
		}
	}
	return table.Folder(string(dir)).Update(context.Background(), func(now *table.Table) error {
		*now = t
		return nil
	})
}

func job(i int) uint32 { return uint32(800000 + i) }

// lease writes a lease that counts, with a journal as long as one HCA's.
func lease(dir state.Lease, id uint32, h node.HCA, c table.Claim) error {
	if err := os.Mkdir(string(dir), 0o700); err != nil {
		return err
	}
	undoLog, err := journal.Create(dir.Journal(), journal.Header{Job: id, Run: "0", Since: proc.SinceBoot()})
	if err != nil {
		return err
	}
	defer undoLog.Close()
	for _, s := range []step.Step{
		&step.Claim{Claims: []table.Claim{c}}, &step.Access{ID: h.ID, Name: h.Name},
		&step.Settings{Of: h.ID, Port: 1}, &step.Access{ID: h.ID, Name: h.Name}, &step.Settings{Of: h.ID, Port: 1},
	} {
		if err := undoLog.Add(s.Kind(), s); err != nil {
			return err
		}
	}
	return errors.Join(os.WriteFile(dir.Env(), []byte("GRESNET_LEASE=1\nGRESNET_JOB="+strconv.Itoa(int(id))+"\n"), 0o644), os.WriteFile(dir.Mark(), nil, 0o644))
}

// externSteps starts a process for each lease, with the title of its extern step.
func externSteps(leases int) (all []*exec.Cmd, err error) {
	for i := range leases {
		cmd := exec.Command("sleep", "3600")
		cmd.Args[0] = fmt.Sprintf("slurmstepd: [%d.extern]", job(i))
		if err := cmd.Start(); err != nil {
			return all, err
		}
		all = append(all, cmd)
	}
	return all, nil
}
