package source_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/source"
	"gresnet/test/sitetest"
)

func TestParseDetail(t *testing.T) {
	indices := func(n ...int) []int { return n }
	for text, want := range map[string][]gres.Want{
		"":                    nil,
		"(null)":              nil,
		"(IDX:)":              nil,
		"NIC:1(IDX:0)":        {{Gres: "nic", Indices: indices(0)}}, // as GresTypes has it
		"gpu:2(IDX:0-1)":      nil,
		"nic:1(IDX:0)":        {{Gres: "nic", Indices: indices(0)}},
		"nic:3(IDX:0-1,3)":    {{Gres: "nic", Indices: indices(0, 1, 3)}},
		"nic:mlx5:2(IDX:0,3)": {{Gres: "nic", Type: "mlx5", Indices: indices(0, 3)}},
		"nic(CNT:2)":          {{Gres: "nic", Count: 2}},
		"nic:mlx5(CNT:2),gpu:2(IDX:0-1),hca(CNT:1)":               {{Gres: "nic", Type: "mlx5", Count: 2}, {Gres: "hca", Count: 1}},
		"gpu:h100:2(IDX:0-1),nic:a:1(IDX:0),nic:b:2(IDX:2-3)":     {{Gres: "nic", Type: "a", Indices: indices(0)}, {Gres: "nic", Type: "b", Indices: indices(2, 3)}},
		"shard:4(1/4,3/4),nic:1(IDX:1),mps:50(0/100),tmp(CNT:9G)": {{Gres: "nic", Indices: indices(1)}},
		"new:form,nic:1(IDX:1),weird":                             {{Gres: "nic", Indices: indices(1)}},
	} {
		got, err := gres.ParseDetail(text, []string{"nic", "hca"})
		for i := range want {
			want[i].Source = "scontrol"
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v, %v, want %+v", text, got, err, want)
		}
	}
	const forms = "unknown form; known are name:count(IDX:…) and name(CNT:…)"
	const typedForms = "unknown form; known are name:type:count(IDX:…) and name:type(CNT:…)"
	for text, want := range map[string]string{
		"nic":                           `parse GRES "nic": ` + forms,
		"nic:2":                         `parse GRES "nic:2": ` + forms,
		"nic:2(0/4,1/4)":                `parse GRES "nic:2(0/4,1/4)": ` + forms,
		"nic:2()":                       `parse GRES "nic:2()": ` + forms,
		"gpu:1(IDX:0),nic:2(IDX:0-":     `parse GRES "nic:2(IDX:0-": the parentheses do not match`,
		"gpu:1(IDX:0":                   `parse GRES "gpu:1(IDX:0": the parentheses do not match`,
		"nic:1)":                        `parse GRES "nic:1)": the parentheses do not match`,
		"nic:1(IDX:0)x":                 `parse GRES "nic:1(IDX:0)x": the parentheses do not match`,
		"nic(IDX:0)":                    `parse GRES "nic(IDX:0)": it has no count`,
		"nic:a:1(IDX:0),nic:b:1(IDX:0)": `parse GRES "nic:b:1(IDX:0)": index 0 of nic is there twice`,
		"nic:x(IDX:0)":                  `parse GRES "nic:x(IDX:0)": "x" is no count`,
		"nic:2(IDX:0)":                  `parse GRES "nic:2(IDX:0)": it counts 2 and has 1 indices`,
		"nic:1(IDX:)":                   `parse GRES "nic:1(IDX:)": it counts 1 and has 0 indices`,
		"nic:1(IDX:N/A)":                `parse GRES "nic:1(IDX:N/A)": parse indices "N/A": parse number "N/A"`,
		"nic:1(IDX:5000)":               `parse GRES "nic:1(IDX:5000)": parse indices "5000": index 5000 is beyond 4095`,
		"nic:a:b:1(IDX:0)":              `parse GRES "nic:a:b:1(IDX:0)": ` + typedForms,
		"nic::1(IDX:0)":                 `parse GRES "nic::1(IDX:0)": ` + typedForms,
		"nic:a:1(CNT:1)":                `parse GRES "nic:a:1(CNT:1)": ` + typedForms,
		"gpu:1(IDX:0),nic(CNT:0)":       `nic: Slurm gave the job some and counts 0, as with no_consume`,
		"nic:0(IDX:)":                   `nic: Slurm gave the job some and counts 0, as with no_consume`,
		"nic:hdr:0(IDX:0)":              `nic: Slurm gave the job some and counts 0, as with no_consume`,
		"nic(CNT:)":                     `parse GRES "nic(CNT:)": "" is no count`,
		"nic(CNT:-1)":                   `parse GRES "nic(CNT:-1)": "-1" is no count`,
		"nic(CNT:4097)":                 `parse GRES "nic(CNT:4097)": a count of 4097 is beyond 4096`,
		"nic(CNT:18446744073709551614)": `parse GRES "nic(CNT:18446744073709551614)": "18446744073709551614" is no count`,
	} {
		got, err := gres.ParseDetail(text, []string{"nic", "hca"})
		if err == nil || err.Error() != want {
			t.Errorf("%q is %+v, error %v, want %s", text, got, err, want)
		}
	}
}

// Slurm's bit_fmt writes into 128 bytes, and takes the last character away.
func TestAListOfIndicesThatSlurmMayHaveCutIsNoFaultOfTheNodes(t *testing.T) {
	for step := 2; step < 12; step++ {
		for first := 0; first < 1200; first += 101 {
			var list []int
			for i := first; len(node.FormatIndices(list)) < 200; i += step {
				list = append(list, i)
			}
			for count := 1; count <= len(list); count++ {
				text := node.FormatIndices(list[:count]) + ","
				text = text[:min(len(text), 127)-1]
				wants, err := gres.ParseDetail(fmt.Sprintf("nic:%d(IDX:%s)", count, text), []string{"nic"})
				var refusal *gres.Refusal
				switch {
				case errors.As(err, &refusal):
					if len(text) < 126 {
						t.Fatalf("%q was not cut: %v", text, err)
					}
				case err != nil || !slices.Equal(wants[0].Indices, list[:count]):
					t.Fatalf("%d indices of which Slurm says %q are %v, %v", count, text, wants, err)
				}
			}
		}
	}
}

func TestDetailIsOfThisNode(t *testing.T) {
	text := strings.Replace(shown(4711, "node1", "nic:1(IDX:0)"), "     Nodes=",
		"     Nodes=node[2-9,11],gpu05 CPU_IDs=0-3 Mem=100 GRES=nic:2(IDX:2-3)\n     Nodes=node10 CPU_IDs=0 Mem=0 GRES=\n     Nodes=", 1)
	for node, want := range map[string]string{
		"node1": "nic:1(IDX:0)", "node2": "nic:2(IDX:2-3)", "gpu05": "nic:2(IDX:2-3)", "node10": "",
	} {
		if got, err := source.Detail(text, node); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", node, got, err, want)
		}
	}
	if got, err := source.Detail(text, "node12"); err == nil {
		t.Errorf("node12: %q", got)
	}
}

func TestFindScontrol(t *testing.T) {
	dir := t.TempDir()
	missing, folder, program := filepath.Join(dir, "missing"), filepath.Join(dir, "folder"), filepath.Join(dir, "scontrol")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := source.FindScontrolIn("", []string{missing, folder, program}); err != nil || got != program {
		t.Errorf("got %q, %v, want %q", got, err, program)
	}
	if got, err := source.FindScontrolIn(program, nil); err != nil || got != program {
		t.Errorf("configured: got %q, %v, want %q", got, err, program)
	}
	_, err := source.FindScontrolIn("", []string{missing, folder})
	sitetest.Fault(t, err, "find scontrol: file does not exist as a program: "+missing+", "+folder)
}

func FuzzScontrol(f *testing.F) {
	f.Add(shown(4711, "node1", "nic:mlx5(CNT:2),gpu:2(IDX:0-1),hca(CNT:1)"), "node1")
	f.Add(shown(4711, "node[1-3]", "nic:a:3(IDX:0-1,3),shard:4(1/4,3/4)"), "node2")
	f.Add(strings.Replace(shown(4711, "node1", "(IDX:)"), " JobName", " ArrayJobId=4711 ArrayTaskId=1 JobName", 1)+"JobId=4710 ArrayJobId=4711 ArrayTaskId=0 JobName=x\n", "node1")
	f.Add("JobId=4711 JobName=x\n     Nodes=a CPU_IDs= Mem= GRES=nic:2(IDX:0-", "a")
	f.Fuzz(func(t *testing.T, text, node string) {
		detail, err := source.Detail(text, node)
		if err != nil {
			return
		}
		if !strings.HasPrefix(text, "JobId=4711 ") || !strings.Contains(text, " GRES="+detail) {
			t.Errorf("%q has %q", text, detail)
		}
		wants, err := gres.ParseDetail(detail, []string{"nic", "hca"})
		if err != nil {
			var refusal *gres.Refusal
			if errors.As(err, &refusal) && len(detail) < 126 {
				t.Errorf("%q is the job's fault: %v", detail, err)
			}
			return
		}
		for _, w := range wants {
			checkWant(t, w, detail)
		}
	})
}

// checkWant holds a want to its bounds, and to what it prints.
func checkWant(t *testing.T, w gres.Want, detail string) {
	if w.Gres != "nic" && w.Gres != "hca" || w.Source != "scontrol" {
		t.Errorf("%q wants %+v", detail, w)
	}
	if (len(w.Indices) == 0) == (w.Count == 0) || w.Count < 0 || w.Count > 4096 || len(w.Indices) > 1024 || !slices.IsSorted(w.Indices) {
		t.Errorf("%q wants %+v", detail, w)
	}
	if len(w.Indices) == 0 {
		return
	}
	again, err := gres.ParseDetail(w.String(), []string{w.Gres})
	if err != nil || !reflect.DeepEqual(again, []gres.Want{w}) {
		t.Errorf("%+v prints %q, which parses as %+v, %v", w, w, again, err)
	}
}

// The answers are those of Slurm 22.05 to a job on node1 and node2, whose name has a line that looks like Slurm's,
// after its user had changed it while its prolog ran.
func TestTheRecordedAnswersToAJobThatItsUserChanges(t *testing.T) {
	for name, want := range map[string]string{
		"shrunk":   "what scontrol says of the job: it has node1 and not node2: somebody has changed, requeued or canceled it since its prolog began",
		"canceled": "", "requeued": "",
		"held": "nic:1(IDX:0)",
	} {
		text, err := os.ReadFile(filepath.Join("testdata", "answers", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := source.Detail(string(text), "node2")
		var refusal *gres.Refusal
		if errors.As(err, &refusal) {
			got = err.Error()
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
