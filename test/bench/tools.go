package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// uid is the user of all jobs.
const uid = 1000

// tool is one that gives jobs their HCAs and takes them back.
type tool struct {
	name     string
	parallel bool // the jobs of a case are at once, not one after another
	other    bool // it takes part in some rounds only
	weigh    bool // how much memory its programs have is of interest
	lossy    bool // it does not return all
	// before is what it needs and is not measured for.
	before func(c testCase, list []hca) error
	// in and out are the programs that one job takes, one after another.
	in, out func(job int, list []hca) []*exec.Cmd
	// after puts right what it leaves undone and is not measured for.
	after func(list []hca) error
	// netns and dev are where a job's namespace and nodes are; empty: not compared.
	netns, dev func(job int) string
}

func nothing(testCase, []hca) error { return nil }
func noMore([]hca) error            { return nil }

// command returns a program as slurmd starts one: with no environment but the job's.
func command(environment []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(environment, "PATH="+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// floor is told again of the node before each round: numbers may have changed.
func floor(programs string) tool {
	return floorOf(programs, func(job int) string { return fmt.Sprintf("/run/floor/%d", job) })
}

// floorOf keeps what is a job's in a folder of its own.
func floorOf(programs string, dir func(job int) string) tool {
	program := filepath.Join(programs, "floor")
	way := func(way string) func(int, []hca) []*exec.Cmd {
		return func(job int, list []hca) []*exec.Cmd {
			if len(list) == 0 {
				return []*exec.Cmd{command(nil, program)} // what a process costs
			}
			return []*exec.Cmd{command(nil, program, way, dir(job)+"/input")}
		}
	}
	return tool{
		name: "floor",
		before: func(c testCase, list []hca) error {
			for job := range c.Jobs {
				if err := os.MkdirAll(dir(job), 0o700); err != nil {
					return err
				}
				if err := dump(c, ofJob(c, job, list), dir(job), dir(job)+"/input"); err != nil {
					return err
				}
			}
			return nil
		},
		in: way("in"), out: way("out"), after: noMore,
		netns: func(job int) string { return dir(job) + "/netns" },
		dev:   func(job int) string { return dir(job) + "/dev" },
	}
}

// installRules gives udev the package's rule, and the program that it may start the place that it has.
func installRules(rules, programs string) error {
	return shell(fmt.Sprintf("install -D -m 644 %s /run/udev/rules.d/90-gresnet.rules; install -m 755 %s/gresnet /usr/sbin/; udevadm control --reload", rules, programs))
}

// undone keeps the package's rule from what other tools do.
const undone = "/run/gresnet/undone"

func gresnet(programs string) tool {
	nodes := 0 // of each job
	way := func(program string) func(int, []hca) []*exec.Cmd {
		return func(job int, list []hca) []*exec.Cmd {
			environment := []string{
				fmt.Sprintf("SLURM_JOB_ID=%d", job+1), fmt.Sprintf("SLURM_JOB_UID=%d", uid), fmt.Sprintf("SLURM_JOB_GID=%d", uid),
				"SLURM_JOB_RESTART_COUNT=0", "SLURMD_NODENAME=node1", "SLURM_CONF=/etc/slurm/slurm.conf",
			}
			if nodes > 0 {
				environment = append(environment, fmt.Sprintf("SLURM_NODELIST=node[1-%d]", nodes))
			}
			if len(list) > 0 {
				environment = append(environment, "SLURM_JOB_GPUS="+gpus(job, len(list)))
			}
			return []*exec.Cmd{command(environment, filepath.Join(programs, program))}
		}
	}
	dir := func(job int) string { return fmt.Sprintf("/run/gresnet/jobs/%d", job+1) }
	return tool{
		name: "gresnet", parallel: true, weigh: true,
		before: func(c testCase, _ []hca) error {
			nodes = c.Nodes
			return shell("rm -f " + undone)
		},
		in: way("gresnet-prolog"), out: way("gresnet-epilog"),
		after: func([]hca) error { return shell("touch " + undone) },
		netns: func(job int) string { return dir(job) + "/netns" },
		dev:   func(job int) string { return dir(job) + "/dev" },
	}
}

// gpus returns the GPUs of a job's HCAs, which number n serves HCA n.
func gpus(job, count int) string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprint(job*count + i)
	}
	return strings.Join(list, ",")
}

// script returns a site's: told as much at once as it can be, or plain, a command for each thing.
func script(folder, name string, environment ...string) tool {
	way := func(way string) func(int, []hca) []*exec.Cmd {
		return func(_ int, list []hca) []*exec.Cmd {
			args := []string{way}
			for _, h := range list {
				args = append(args, h.link, h.rdma)
			}
			return []*exec.Cmd{command(environment, filepath.Join(folder, "script"), args...)}
		}
	}
	return tool{
		name: name, other: true, before: nothing, in: way("in"), out: way("out"), after: noMore,
		netns: func(int) string { return "/run/netns/job" },
		dev:   func(int) string { return "/run/script/dev" },
	}
}

// cniName is the name of what CNI's plugins are together.
const cniName = "CNI"

// plugins returns two of CNI's, one after the other for each HCA: host-device for the network interface, which starts
// another for the address, and rdma-cni for the RDMA device. The namespace is there before.
func plugins(folder string) tool {
	way := func(way string, order ...string) func(int, []hca) []*exec.Cmd {
		return func(_ int, list []hca) (commands []*exec.Cmd) {
			for n, h := range list {
				for _, plugin := range order {
					cmd := command([]string{
						"CNI_COMMAND=" + way, "CNI_CONTAINERID=job", "CNI_NETNS=/run/netns/cni", "CNI_IFNAME=" + h.link, "CNI_PATH=" + folder,
					}, filepath.Join(folder, plugin))
					cmd.Stdin = strings.NewReader(networkOf(plugin, n, h))
					commands = append(commands, cmd)
				}
			}
			return commands
		}
	}
	return tool{
		name: cniName, other: true, lossy: true,
		before: func(testCase, []hca) error {
			return shell("ip netns add cni; chmod 666 /dev/infiniband/uverbs*") // as udev has them
		},
		in: way("ADD", "host-device", "rdma"), out: way("DEL", "rdma", "host-device"),
		after: func(list []hca) error {
			if err := shell("ip netns del cni"); err != nil {
				return err
			}
			return batch(settingsOf(list))
		},
	}
}

// networkOf returns what a CNI runtime tells a plugin.
func networkOf(plugin string, n int, h hca) string {
	type m = map[string]any
	network := m{"cniVersion": "1.0.0", "name": "bench", "type": plugin}
	if plugin == "rdma" {
		// Its devices are those of PCI or of the auxiliary bus; ibfake's are of neither.
		network["deviceID"] = "../../../class/infiniband/" + h.rdma + "/device"
		network["prevResult"] = m{"cniVersion": "1.0.0", "interfaces": []m{{"name": h.link}}}
	} else {
		network["device"] = h.link
		network["ipam"] = m{
			"type":      "static",
			"addresses": []m{{"address": fmt.Sprintf("10.%d.0.2/24", n)}},
			"routes":    []m{{"dst": fmt.Sprintf("172.16.%d.0/24", n), "gw": fmt.Sprintf("10.%d.0.1", n)}},
		}
	}
	text, err := json.Marshal(network)
	if err != nil {
		panic(err) // of strings alone
	}
	return string(text)
}

// ofJob returns the HCAs of one of a case's jobs.
func ofJob(c testCase, job int, list []hca) []hca {
	each := len(list) / c.Jobs
	return list[job*each : (job+1)*each]
}
