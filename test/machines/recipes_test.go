package machines_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/admin/setup"
	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/source"
	"gresnet/lib/lease/host"
	"gresnet/lib/slurm"
	"gresnet/test/machines"
	"gresnet/test/sitetest"
)

// recipe is what docs/recipes.md has for a machine.
type recipe struct {
	files map[string]string // by name: gresnet.toml, gres.conf, slurm.conf
	shell string            // commands that write gresnet.toml
}

// layoutsOf are the layouts that the rows of the page's table are about.
var layoutsOf = map[string][]string{
	"DGX A100":                       {"dgx-a100", "dgx-a100-real-minors"},
	"DGX H100":                       {"dgx-h100"},
	"HGX B200, AWS p6-b200":          {"hgx-b200-nvswitch", "aws-p6-b200"},
	"HGX or L40S with four NICs":     {"hgx-h100-4nic", "onprem-l40s"},
	"GB200 NVL4":                     {"gb200-nvl4"},
	"Azure ND A100 v4, ND H100 v5":   {"azure-ndv4", "azure-ndv4-an", "azure-ndv4-an-lowdomain", "azure-ndv5", "azure-ndv5-an", "azure-ndv5-an-lowdomain"},
	"AWS p4d":                        {"aws-p4d"},
	"AWS p5":                         {"aws-p5"},
	"AWS p5en, p6e-gb200":            {"aws-p5en", "aws-p6e-gb200-half"},
	"OCI BM.GPU.H100.8, BM.GPU.B4.8": {"oci-bm.gpu.h100.8", "oci-bm.gpu.b4.8"},
	"MI300X, eight NICs":             {"amd-topo_8p_940"},
	"AMD nodes of four NICs":         {"amd-topo_8p1h"},
	"AMD nodes of two NICs":          {"amd-topo_4p2h_2nic", "amd-topo_8p_pcie_2nic"},
}

// page reads docs/recipes.md: its recipes by machine, and what its table says that jobs of one GPU, of two
// neighbors and of all get; empty: it does not say.
func page(t *testing.T) (recipes map[string]recipe, rows map[string][3]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	recipes, rows = map[string]recipe{}, map[string][3]string{}
	var language, block string
	var about []string
	for i, line := range strings.Split(string(text), "\n") {
		if info, fence := strings.CutPrefix(line, "```"); fence && language == "" {
			words := strings.Fields(info)
			if len(words) != 2 || !strings.HasPrefix(words[1], "machine=") {
				t.Fatalf("docs/recipes.md:%d: a block without a language and a machine is not tested: %s", i+1, line)
			}
			language, block, about = words[0], "", strings.Split(strings.TrimPrefix(words[1], "machine="), ",")
			continue
		} else if fence {
			for _, machine := range about {
				recipes[machine] = recipes[machine].with(t, language, block)
			}
			language = ""
			continue
		}
		if language != "" {
			block += line + "\n"
			continue
		}
		cells := strings.Split(line, "|")
		for i, c := range cells {
			cells[i] = strings.TrimSpace(c)
		}
		if len(cells) == 7 && cells[2] != "1 GPU" && cells[2] != "---" {
			title := regexp.MustCompile(`\[([^]]*)]\([^)]*\)`).ReplaceAllString(cells[1], "$1")
			rows[title] = [3]string{cells[2], cells[3], cells[4]}
		}
	}
	return recipes, rows
}

// with adds a block.
func (r recipe) with(t *testing.T, language, block string) recipe {
	t.Helper()
	switch language {
	case "sh":
		r.shell += block
	case "conf":
		if r.files == nil {
			r.files = map[string]string{}
		}
		parts := regexp.MustCompile(`(?m)^# (\S+)$`).Split(block, -1)
		for i, name := range regexp.MustCompile(`(?m)^# (\S+)$`).FindAllStringSubmatch(block, -1) {
			r.files[name[1]] += parts[i+1]
		}
		if strings.TrimSpace(parts[0]) != "" {
			t.Errorf("nothing says which file this is in: %s", parts[0])
		}
	default:
		t.Errorf("a block of %s is not tested", language)
	}
	return r
}

// site is a machine that a site has configured.
type site struct {
	machines.Machine
	cfg     config.Config
	mapping gres.Mapping
	host    *host.Host
	top     gres.Topology
}

// open configures a machine by gresnet.toml and Slurm's files.
func open(t *testing.T, m machines.Machine, toml string, files fs.FS, name string) site {
	t.Helper()
	cfg := sitetest.Parse(t, toml)
	s := site{Machine: m, cfg: cfg}
	var err error
	if s.mapping, err = gres.Map(cfg, slices.Concat(m.HCAs, m.Others)); err != nil {
		t.Fatal(err)
	}
	if drift := s.mapping.Drift(); drift != nil {
		t.Fatal(drift)
	}
	s.cfg.Slurm.Source = []string{config.GPU} // as plan --gpus has it; no slurmctld answers here
	s.host = &host.Host{Sys: m.Sys, Proc: m.Proc, Files: files, Slurm: host.Slurm{Name: name}, Config: s.cfg}
	if s.top, err = s.host.Topology(s.mapping.HCAs()); err != nil || s.top.Unknown != nil {
		t.Fatal(err, s.top.Unknown)
	}
	return s
}

// scan returns what `gresnet scan` has of the mapping.
func (s site) scan(t *testing.T) (all report.Scan) {
	t.Helper()
	served, err := s.top.Serve(s.mapping, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range served {
		h := report.Bare(e.HCA.Name, e.HCA.ID)
		h.Have(e.Gres, e.Type, e.Index)
		h.Serves = e.GPUs
		all.HCAs = append(all.HCAs, h)
	}
	return all
}

// toml returns what `gresnet scan --toml` prints of a machine whose HCAs are the jobs'.
func toml(t *testing.T, m machines.Machine) string {
	t.Helper()
	m.Others = nil
	var b bytes.Buffer
	if err := open(t, m, "", nil, "").scan(t).TOML(&b, []string{"nic"}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// gets returns the HCAs of a job that asks for GPUs and no NICs.
func (s site) gets(t *testing.T, gpus []int) (names []string) {
	t.Helper()
	wants, _, err := source.Ask(t.Context(), job.Job{ID: 1, GPUs: gpus}, s.cfg, s.host.Local(func() (gres.Mapping, error) { return s.mapping, nil }))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := gres.Choose(wants, s.mapping, nobody, s.top.Near(gpus))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.HCA.Name)
	}
	slices.Sort(names)
	return names
}

func nobody(node.ID) (gres.Holder, bool) { return gres.Holder{}, false }

// holdAgainst compares what jobs of one GPU, of two neighbors and of all get with a row of the table.
func (s site) holdAgainst(t *testing.T, row [3]string) {
	t.Helper()
	for i, size := range []int{1, 2, len(s.top.GPUs)} {
		want, err := strconv.Atoi(strings.ReplaceAll(row[i], "none", "0"))
		if row[i] == "" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for first := 0; first+size <= len(s.top.GPUs); first += size {
			gpus := make([]int, size)
			for k := range gpus {
				gpus[k] = first + k
			}
			if got := s.gets(t, gpus); len(got) != want {
				t.Errorf("%s: GPUs %s: the table says %d HCAs, the job gets %q", s.Name, node.FormatIndices(gpus), want, got)
			}
		}
	}
}

func TestTheTableOfMachinesSaysWhatJobsGet(t *testing.T) {
	all, err := machines.All()
	if err != nil {
		t.Fatal(err)
	}
	recipes, rows := page(t)
	if titles, known := slices.Sorted(maps.Keys(rows)), slices.Sorted(maps.Keys(layoutsOf)); !slices.Equal(titles, known) {
		t.Fatalf("the table has\n%q\nand there are layouts for\n%q", titles, known)
	}
	for title, row := range rows {
		for _, name := range layoutsOf[title] {
			m, is := all[name]
			if !is {
				t.Fatalf("there is no layout %s", name)
			}
			if _, is := recipes[name]; is {
				continue // the next test has it
			}
			text := ""
			if len(m.Others) > 0 {
				text = toml(t, m)
			}
			open(t, m, text, nil, "").holdAgainst(t, row)
		}
	}
}

// TestEachRecipeIsUnderstoodAndGivesJobsWhatThePageSays reads each block of the page as gresnet and Slurm do.
func TestEachRecipeIsUnderstoodAndGivesJobsWhatThePageSays(t *testing.T) {
	all, err := machines.All()
	if err != nil {
		t.Fatal(err)
	}
	recipes, rows := page(t)
	if len(recipes) < 10 {
		t.Errorf("the page has recipes for %q", slices.Sorted(maps.Keys(recipes)))
	}
	for name, r := range recipes {
		t.Run(name, func(t *testing.T) {
			m, is := all[name]
			if !is {
				t.Fatal("there is no such layout")
			}
			s := r.open(t, m)
			for _, j := range m.Jobs {
				want := slices.Sorted(slices.Values(j.HCAs))
				if got := s.gets(t, j.GPUs); !slices.Equal(got, want) {
					t.Errorf("GPUs %s: got %q, want %q", node.FormatIndices(j.GPUs), got, want)
				}
			}
			for title, row := range rows {
				if slices.Contains(layoutsOf[title], name) {
					s.holdAgainst(t, row)
				}
			}
			for count := range len(s.mapping) + 1 {
				wants, err := gres.ParseRequest(fmt.Sprintf("nic:%d", count+1), s.cfg.Slurm.Gres, "--gres")
				if err != nil {
					t.Fatal(err)
				}
				got, err := gres.Choose(wants, s.mapping, nobody, nil)
				if enough := count < len(s.mapping); enough != (err == nil) || enough && len(got) != count+1 {
					t.Errorf("nic:%d of %d: %v, %v", count+1, len(s.mapping), got, err)
				}
			}
		})
	}
}

// open puts a recipe's lines where the page says, and holds Slurm's files against gresnet's.
func (r recipe) open(t *testing.T, m machines.Machine) site {
	t.Helper()
	shipped, err := os.ReadFile("../../conf/gresnet.toml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(shipped) + r.files["gresnet.toml"]
	if r.shell != "" {
		text = r.run(t, m, text)
	}
	root := fstest.MapFS{
		"etc/slurm/slurm.conf":     {Data: []byte("SlurmctldHost=ctl\nGresTypes=gpu,nic\n" + r.files["slurm.conf"])},
		"etc/slurm/gres.conf":      {Data: []byte(r.files["gres.conf"])},
		"etc/gresnet/gresnet.toml": {Data: []byte(text)},
	}
	conf, err := slurm.Read(root, "/etc/slurm/slurm.conf")
	if err != nil {
		t.Fatal(err)
	}
	lines := conf.All("nodename")
	if len(lines) != 1 {
		t.Fatalf("slurm.conf has %d lines of nodes", len(lines))
	}
	names, err := slurm.NodesIn(lines[0].Keys[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, m, text, root, names[0])
	scan := s.scan(t)
	var gresLines bytes.Buffer
	if err := scan.GresConf(&gresLines, s.cfg.Slurm.Gres, report.PlaceholderDir); err != nil {
		t.Fatal(err)
	}
	files, err := scan.Placeholders(s.cfg.Slurm.Gres)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		files[i] = path.Join(report.PlaceholderDir, f)
	}
	if count, is := conf.Promised(names[0], "gpu"); !is || count != len(s.top.GPUs) {
		t.Errorf("slurm.conf has %d GPUs, the machine %d", count, len(s.top.GPUs))
	}
	gresConf, err := slurm.Read(root, "/etc/slurm/gres.conf")
	if err != nil {
		t.Fatal(err)
	}
	devices, err := slurm.Merge(gresConf, conf, names[0], "nic")
	if err != nil || len(devices) != len(s.mapping) {
		t.Fatalf("Slurm has %d NICs, gresnet %d: %v", len(devices), len(s.mapping), err)
	}
	for i, d := range devices {
		if d.File != files[i] || d.Type != s.mapping[i].Type {
			t.Errorf("Slurm has NIC %d as %v, gresnet as %s of type %q", i, d, files[i], s.mapping[i].Type)
		}
	}
	plan := setup.Make(setup.Site{
		Root: root, Node: names[0], Toml: "/etc/gresnet/gresnet.toml", Gres: s.cfg.Slurm.Gres,
		GresLines: strings.Split(strings.TrimSpace(gresLines.String()), "\n"), Files: files,
	})
	for _, refused := range plan.Refusals {
		t.Errorf("setup does not do what the page says: %s; %s", refused.Text, refused.Do)
	}
	for _, e := range plan.Edits {
		after, err := slurm.ParseFile(e.Path, string(e.After))
		switch {
		case e.Path == "/etc/slurm/gres.conf":
			t.Errorf("setup would have gres.conf otherwise:\n%s", e.After)
		case e.Path == "/etc/slurm/slurm.conf" && (err != nil || !strings.Contains(string(e.After), r.files["slurm.conf"])):
			t.Errorf("setup would have slurm.conf otherwise, %v:\n%s", err, after.Text)
		}
	}
	return s
}

// run runs a recipe's commands and returns gresnet.toml. In place of gresnet is a script that prints what
// gresnet would.
func (r recipe) run(t *testing.T, m machines.Machine, before string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "gresnet.toml")
	for name, text := range map[string]string{"gresnet.toml": before, "scan": toml(t, m), "gresnet": "#!/bin/sh\n[ \"$*\" = 'scan --toml' ] && cat " + dir + "/scan\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(r.shell, "/etc/gresnet/gresnet.toml", file))
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", r.shell, err, said)
	}
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(after)
}

func TestRecipesGiveWhatTheirWordsSay(t *testing.T) {
	all, err := machines.All()
	if err != nil {
		t.Fatal(err)
	}
	recipes, _ := page(t)
	for name, r := range recipes {
		s := r.open(t, all[name])
		devices := source.Isolation(s.cfg, job.Job{}) == config.IsolateDevices
		if want := name == "aws-p5" || strings.HasPrefix(name, "onprem"); devices != want {
			t.Errorf("%s: jobs stay in the node's network: %t", name, devices)
		}
		for _, e := range s.mapping {
			wantPart := ""
			switch {
			case strings.HasPrefix(name, "oci"):
				wantPart = "ipvlan"
			case strings.HasPrefix(name, "min"):
				wantPart = "pkey"
				physics, others := source.PKey(s.cfg, job.Job{Account: "physics"}, e.PKey), source.PKey(s.cfg, job.Job{Account: "arts"}, e.PKey)
				if physics != 0x8002 || others != 0x8001 {
					t.Errorf("%s: P_Keys %s and %s", name, physics, others)
				}
			}
			if e.Part != wantPart || wantPart != "" && e.Slot.Of != 1 || wantPart == "ipvlan" && e.Network.String() != "10.208.0.0/12" {
				t.Errorf("%s: %s is %q of %v", name, e, e.Part, e.Network)
			}
		}
	}
}
