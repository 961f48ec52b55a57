package source_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/source"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/slurm"
	"gresnet/test/netnstest"
	"gresnet/test/sitetest"
)

// faults are what can be wrong, and what comes of it. Those that are the node's are the rows of a table in
// docs/trouble.md, which says that all others are the job's.
var faults = map[string]func(t *testing.T) []error{
	"an index that the node does not have, by source `policy` or `program`": func(*testing.T) []error {
		return wanted(gres.Want{Gres: "nic", Indices: []int{9}}, "policy", "program")
	},
	"a count beyond what the node has, by source `policy` or `program`": func(*testing.T) []error {
		return wanted(gres.Want{Gres: "nic", Count: 3}, "policy", "program")
	},
	"an index or a count from `scontrol` beyond what the node has": func(*testing.T) []error {
		return append(wanted(gres.Want{Gres: "nic", Indices: []int{9}}, "scontrol"), wanted(gres.Want{Gres: "nic", Count: 3}, "scontrol")...)
	},
	"any HCA from `scontrol` on a node that has none": func(*testing.T) []error {
		_, err := gres.Choose([]gres.Want{{Gres: "nic", Count: 1, Source: "scontrol"}}, nil, nil, nil)
		return []error{err}
	},
	"a type that the mapping does not have": func(*testing.T) []error {
		return wanted(gres.Want{Gres: "nic", Type: "edr", Count: 1}, "policy", "program", "scontrol")
	},
	"a GRES of `slurm.gres` that no HCA of this node has, if the node has others": func(*testing.T) []error {
		return wanted(gres.Want{Gres: "hca", Count: 1}, "policy", "program", "scontrol")
	},
	"HCAs that another job holds, by any source": func(*testing.T) (errs []error) {
		errs = fromEach("held", "gpu", "node", "scontrol", "policy", "program")
		for _, err := range fromEach("held", "gpu", "node") { // shards, MPS
			var taken *gres.Taken
			errors.As(err, &taken)
			errs = append(errs, taken.Shared())
		}
		return errs
	},
	"a list of indices from `scontrol` that is 126 characters long, where Slurm cuts it": func(*testing.T) []error {
		_, err := gres.ParseDetail("nic:2(IDX:"+strings.Repeat("1", 126)+")", []string{"nic"})
		return []error{err}
	},
	"an answer of `scontrol` that is longer than 16 MiB": func(t *testing.T) []error {
		program, _ := scontrolThat(t, "exec yes JobId=4711\n")
		_, _, err := askScontrol(program, time.Minute)
		return []error{err}
	},
	"too few HCAs, if a quarantined one would be enough": func(*testing.T) []error { return fromEach("sick", "scontrol", "policy", "program") },
	"HCAs that no job has, but a user's process uses, by any source": func(*testing.T) []error {
		return fromEach("used", "gpu", "node", "scontrol", "policy", "program")
	},
	"a type for which Slurm and the mapping have different indices": func(*testing.T) []error {
		return chosen("held", gres.Want{Gres: "nic", Type: "hdr", Indices: []int{1}})
	},
	"no `[[policy]]` fits, and no other source knows the job": func(t *testing.T) []error {
		_, _, err := askSite("policy", func(*config.Slurm) {})
		return []error{err}
	},
	"a GRES of `slurm.gres` that the job asks for, if it gets no HCA and only sources `gpu` and `node` were asked": func(t *testing.T) []error {
		_, _, err := askUnheard(t, []string{config.GPU, config.Node}, "nic:1(IDX:0)")
		return []error{err}
	},
	"a node of the job whose address nobody knows": func(*testing.T) (errs []error) {
		c := config.Default().Overlay
		unknown := func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
		nobody := func() (slurm.Conf, error) { return nil, nil }
		for _, nodes := range []string{"n[1-9]", "n[0-99999999]"} {
			_, err := jobnet.NewNetwork(context.Background(), c, job.Job{ID: 1, Node: "n1", Nodes: nodes}, jobnet.World{Slurm: nobody, Look: unknown})
			errs = append(errs, err)
		}
		return errs
	},
	"a GPU that the node does not have": func(t *testing.T) []error {
		two := gres.Topology{GPUs: []node.Location{{PCI: "0000:07:00.0"}, {PCI: "0000:0f:00.0"}}}
		_, err := two.Serve(nil, []int{2})
		_, named := two.Serve(gres.Mapping{{Gres: "nic", HCA: sitetest.HCA(0), GPUs: []int{0, 5}}}, []int{2})
		return []error{err, named}
	},
	"a job's GPUs, if none can be found, no `[[hca]]` has `gpus`, and no other source knows the job": func(*testing.T) []error {
		mapping := func(gpus []int) (gres.Mapping, error) {
			return gres.Topology{}.Serve(gres.Mapping{{Gres: "nic", HCA: sitetest.HCA(0)}}, gpus)
		}
		_, _, err := source.Ask(context.Background(), job.Job{ID: 1, GPUs: []int{0}}, config.Config{Slurm: config.Slurm{Source: []string{config.GPU}}}, source.Local{Mapping: mapping})
		return []error{err}
	},
	"a job's GPUs, if nothing tells which GPUs Slurm means by their numbers, and no `[[hca]]` has `gpus`": func(*testing.T) []error {
		two := gres.Topology{GPUs: []node.Location{{PCI: "0000:07:00.0"}, {PCI: "0000:0f:00.0"}}, Unknown: errors.New("nobody knows")}
		_, err := two.Serve(gres.Mapping{{Gres: "nic", HCA: sitetest.HCA(0)}}, []int{0})
		return []error{err}
	},
	"an `[[hca]]` that fits no HCA of the node, if the job needs it": func(t *testing.T) []error { return mappedAs(t, "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_7\"\n") },
	"an `[[hca]]` that fits several HCAs, if the job needs it":       func(t *testing.T) []error { return mappedAs(t, "[[hca]]\nindex = 0\nmatch = \"pci=10:00.0\"\n") },
	"two `[[hca]]` that mean one HCA": func(t *testing.T) []error {
		return mappedAs(t, "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_1\"\n[[hca]]\nindex = 1\nmatch = \"pci=11:00.0\"\n")
	},
	"a job's name or path that imitates what `scontrol` prints": func(t *testing.T) []error {
		return answered(t, says(strings.Replace(shown(4711, "node1", "nic:1(IDX:0)"), "JobName=", "JobName=\n   Socks/Node=*\n     Nodes=node1 CPU_IDs=0 Mem=0 GRES=nic:2(IDX:1-2)\n   MinCPUsNode=1\n", 1)))
	},
	"an answer of `scontrol` without this node: the job has shrunk, or was requeued or canceled": func(t *testing.T) []error {
		return append(answered(t, says(shown(4711, "node2", "nic:1(IDX:0)"))), answered(t, says(strings.Replace(shown(4711, "(null)", ""), "     Nodes=", "     No=", 1)))...)
	},
	"an answer of `scontrol` about another job, or that there is none": func(t *testing.T) []error {
		return append(answered(t, says(shown(4712, "node1", "nic:1(IDX:0)"))), answered(t, "echo 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n")...)
	},
	"an answer of `scontrol` that is cut off, or in an unknown form": func(t *testing.T) []error {
		return append(answered(t, "printf 'JobId=4711 JobName=x'\n"), answered(t, "echo hello\n")...)
	},
	"a slurmctld that does not answer in time: `scontrol` says so, or says nothing": func(t *testing.T) []error {
		said := answeredIn(t, time.Second, "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2\nexit 1\n")
		return append(said, answeredIn(t, time.Second, "exec sleep 1000\n")...)
	},
	"a `scontrol` that fails for another reason, or is killed": func(t *testing.T) []error {
		return append(answered(t, "exit 1\n"), answered(t, "kill -KILL $$\n")...)
	},
	"a `scontrol` that is not there, cannot be run, or says that slurm.conf or a library is missing": func(t *testing.T) []error {
		_, _, err := askScontrol("/no/such/scontrol", time.Second)
		return append(answered(t, "echo 'unable to status file /etc/slurm/slurm.conf' >&2\nexit 1\n"), err)
	},
	"a program that others than root may write":      func(t *testing.T) []error { return siteSays(t, "nic\n", 0o777) },
	"a program with a text that gresnet cannot read": func(t *testing.T) []error { return siteSays(t, "exit 3\n", 0o755) },
}

// chosen chooses on a node of two HCAs. The first is held, sick, or used by a user.
func chosen(first string, w gres.Want) []error {
	m := gres.Mapping{{Gres: "nic", Type: "hdr", Index: 0, HCA: sitetest.HCA(0)}, {Gres: "nic", Type: "ndr", Index: 1, HCA: sitetest.HCA(1)}}
	_, err := gres.Choose([]gres.Want{w}, m, func(id node.ID) (gres.Holder, bool) {
		holder := gres.Holder{Job: 1, Quarantined: strings.TrimPrefix(first, "held")}
		if first == "used" {
			holder = gres.Holder{User: "python3 (pid 7, user 1000)"}
		}
		return holder, id == sitetest.HCA(0).ID
	}, nil)
	return []error{err}
}

// wanted returns what comes of a want by each of some sources.
func wanted(w gres.Want, sources ...string) (errs []error) {
	for _, w.Source = range sources {
		errs = append(errs, chosen("held", w)...)
	}
	return errs
}

// fromEach returns what comes of it when each of some sources gives, by count and by
// index, an HCA that is held or sick.
func fromEach(first string, sources ...string) (errs []error) {
	for _, s := range sources {
		errs = append(errs, chosen(first, gres.Want{Gres: "nic", Count: 2, Source: s})...)
		errs = append(errs, chosen(first, gres.Want{Gres: "nic", Indices: []int{0}, Source: s})...)
	}
	return errs
}

// mappedAs maps a node of three HCAs. Two share a PCI function.
func mappedAs(t *testing.T, text string) []error {
	shared := sitetest.HCA(0)
	shared.ID.Aux, shared.Name = "mlx5_core.sf.2", "mlx5_9"
	m, err := gres.Map(sitetest.Parse(t, text), []node.HCA{sitetest.HCA(0), sitetest.HCA(1), shared})
	if err == nil {
		_, err = gres.Choose([]gres.Want{{Gres: "nic", Indices: []int{0}, Source: "policy"}}, m, nil, nil)
	}
	return []error{err}
}

func answered(t *testing.T, script string) []error { return answeredIn(t, patient, script) }

func answeredIn(t *testing.T, most time.Duration, script string) []error {
	program, _ := scontrolThat(t, script)
	_, _, err := askScontrol(program, most)
	return []error{err}
}

// siteSays returns what comes of a text of the site's program.
func siteSays(t *testing.T, text string, mode os.FileMode) []error {
	path := filepath.Join(netnstest.RootsFolder(t), "4711")
	write(t, path, "#!/bin/sh\n"+text, mode)
	_, _, err := askProgram(path)
	return []error{err}
}

func TestFaultsAreWhoseTheDocumentationSays(t *testing.T) {
	text, err := os.ReadFile("../../../docs/trouble.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| the node's fault |\n| --- |\n")
	if !found {
		t.Fatal("the documentation has no table of the node's faults")
	}
	nodes := map[string]bool{}
	for line := range strings.Lines(table) {
		row, is := strings.CutPrefix(line, "| ")
		if !is {
			break
		}
		row = strings.TrimSuffix(row, " |\n")
		if nodes[row] = true; faults[row] == nil {
			t.Errorf("this test does not know %q", row)
		}
	}
	for fault, happens := range faults {
		t.Run(fault, func(t *testing.T) {
			for _, err := range happens(t) {
				if err == nil {
					t.Fatal("it is no error")
				}
				var refusal *gres.Refusal
				if errors.As(err, &refusal) == nodes[fault] {
					t.Errorf("%v: the documentation has it as the node's fault: %v", err, nodes[fault])
				}
			}
		})
	}
}
