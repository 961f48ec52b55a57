package slurmref

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/slurm"
	"gresnet/test/seed"
)

// gresKey returns a key of gres.conf with a value.
func gresKey(r *rand.Rand, key, value string) string {
	return recase(r, key) + pick(r, "=", "=", "=", " = ", "= ") + value
}

func gresFiles(r *rand.Rand) string {
	if r.IntN(30) == 0 {
		return "/g/nic[1-0]" // slurmd waits long for a file that is not there
	}
	return pick(r, "/g/nic0", "/g/nic[0-1]", "/g/nic[2-3]", "/g/nic[0-1],/g/nic[2-3]", "/g/nic3,/g/nic1", "/g/nic[3,0-1]",
		"/g/nic[00-01]", "/g/nic[0-1]p[0-1]", "/g/nic0,/g/nic0", `"/g/nic[0-1]"`)
}

// gresLine returns one line of gres.conf, or more that a backslash joins.
func gresLine(r *rand.Rand, types []string) string {
	var words []string
	if r.IntN(6) == 0 { // another GRES
		return gresKey(r, "Name", pick(r, "gpu", "opa")) + " Type=a Count=1\n"
	}
	name := gresKey(r, "Name", pick(r, "nic", "nic", "NIC", "Nic"))
	switch r.IntN(12) {
	case 0, 1, 2:
		words = append(words, gresKey(r, "NodeName", pick(r, "n1", "n[1-2]", "n2", "N1", "n[2-3],n1", `"n1"`)), name)
	case 3:
		return pick(r, "AutoDetect=off\n", "AUTODETECT=OFF # x\n", "# Name=nic File=/g/nic0\n", "\n", "Include one.conf\n", "include one.conf # x\n")
	default:
		words = append(words, name)
	}
	if kind := pick(r, types...); kind != "" {
		words = append(words, gresKey(r, "Type", kind))
	}
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		words = append(words, gresKey(r, "File", gresFiles(r)))
	case 4, 5:
		words = append(words, gresKey(r, "Files", gresFiles(r)))
	case 6:
		words = append(words, gresKey(r, "MultipleFiles", gresFiles(r)))
	case 7:
		words = append(words, gresKey(r, "File", gresFiles(r)), gresKey(r, pick(r, "File", "Files", "MultipleFiles"), gresFiles(r)))
	default:
		words = append(words, gresKey(r, "Count", pick(r, "1", "2", "3", "02", "2 ")))
	}
	if r.IntN(15) == 0 {
		words = append(words, gresKey(r, "Count", pick(r, "1", "2", "4", "0", "1K", "x", "-1", "")))
	}
	if r.IntN(10) == 0 {
		words = append(words, pick(r, "Cores=0", "CPUs=0-1", "Flags=CountOnly", "flags=nvidia_gpu_env", "Links=0,-1", "Colour=red", "Type=ndr", "Name=nic"))
	}
	return strings.Join(words, pick(r, " ", " ", "  ", "\t", " \\\n", " \\ \n ")) + pick(r, "\n", "\n", "\n", " \n", " # x\n", " \\\n", "\r\n")
}

func gresFile(r *rand.Rand, most int) string {
	types := [][]string{{""}, {""}, {"hdr"}, {"hdr", "ndr"}, {"HDR"}, {"", "hdr"}, {"400", "200"}, {"2k", "hdr"}, {"80g", "3090"}, {"1g.10gb", "0"}}[r.IntN(10)]
	var b strings.Builder
	for range 1 + r.IntN(most) {
		b.WriteString(gresLine(r, types))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// promise returns a node's Gres= in slurm.conf that fits what gresnet reads in gres.conf, or seldom another one.
func promise(r *rand.Rand, conf slurm.Conf, err error) string {
	devices, unread := conf.Devices("n1", "nic")
	if err != nil || unread != nil {
		return "nic:4"
	}
	var types, list []string
	count := map[string]int{}
	for _, d := range devices {
		if count[d.Type]++; !slices.Contains(types, d.Type) {
			types = append(types, d.Type)
		}
	}
	if r.IntN(8) == 0 {
		return fmt.Sprintf("nic:%d", len(devices))
	}
	r.Shuffle(len(types), func(i, j int) { types[i], types[j] = types[j], types[i] })
	for _, kind := range types {
		list = append(list, strings.ReplaceAll(fmt.Sprintf("nic:%s:%d", kind, count[kind]), "::", ":"))
	}
	return strings.Join(list, ",")
}

// Of the GRES that a job can have, gresnet numbers each as slurmd does.
func TestGRESAreNumberedAsSlurmdDoes(t *testing.T) {
	for _, suite := range Suites() {
		t.Run(suite, func(t *testing.T) {
			d, r := StartDaemon(t, suite), seed.Rand()
			const most = 500
			taken := 0
			for range most {
				text, one := gresFile(r, 4), gresFile(r, 2)
				d.Write("gres.conf", text)
				d.Write("one.conf", one)
				lines, err := slurm.Read(os.DirFS("/"), d.Path("gres.conf"))
				gres := promise(r, lines, err)
				d.Write("slurm.conf", d.Conf("NodeName=n1 Gres="+gres+"\n"))
				if compareGres(t, d, text, one, gres) {
					taken++
				}
				if t.Failed() {
					return
				}
			}
			t.Logf("%d files, of which slurmd takes %d", most, taken)
		})
	}
}

// strangeGres is what gresnet refuses, and slurmd takes some of: a file in two lines or twice in one, a type
// in two cases, more than a thousand.
var strangeGres = regexp.MustCompile(`it has /[^ ]+ twice|another line of the GRES has /|and another line [hH]|"1K" is no count`)

func compareGres(t *testing.T, d *Daemon, text, one, gres string) (isTaken bool) {
	t.Helper()
	want, why := d.Gres("nic")
	got, err := numbered(d.Path("gres.conf"), d.Path("slurm.conf"))
	switch {
	case err != nil && strangeGres.MatchString(err.Error()):
	case why == "" && err != nil:
		t.Errorf("slurmd takes it, gresnet says %v\n%s\none.conf:\n%s\nGres=%s\nslurmd: %q", err, text, one, gres, want)
	case why != "" && err == nil:
		t.Errorf("slurmd says %s, gresnet has %q\n%s\none.conf:\n%s\nGres=%s", why, got, text, one, gres)
	case why == "" && !slices.Equal(got, want):
		t.Errorf("it is read in another way\n%s\none.conf:\n%s\nGres=%s\ngresnet: %q\nslurmd:  %q", text, one, gres, got, want)
	}
	return why == ""
}

// numbered returns the node's devices in the order of their indices: the type and the file.
func numbered(gresConf, slurmConf string) (all []string, err error) {
	root := os.DirFS("/")
	lines, err := slurm.Read(root, gresConf)
	if err != nil {
		return nil, err
	}
	conf, err := slurm.Read(root, slurmConf)
	if err != nil {
		return nil, err
	}
	if faults := lines.GresFaults(); len(faults) > 0 {
		return nil, faults[0]
	}
	for _, other := range []string{"gpu", "opa"} {
		if _, err := lines.Devices("n1", other); err != nil {
			return nil, err
		}
	}
	devices, err := lines.Devices("n1", "nic")
	if err != nil {
		return nil, err
	}
	types := conf.Types("n1", "nic")
	for _, kind := range types {
		for _, dev := range devices {
			if kind == "" {
				dev.Type = "" // Slurm forgets types that slurm.conf does not have
			}
			if dev.Type == kind {
				all = append(all, strings.Join(append([]string{dev.Type, dev.File}, dev.More...), " "))
			}
		}
	}
	return all, nil
}
