package slurmref

import (
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/admin/setup"
	"gresnet/lib/slurm"
	"gresnet/test/seed"
	"gresnet/test/stamptest"
)

const plugins = "usr/lib/x86_64-linux-gnu/slurm-wlm"

// node returns one with a slurm.conf and the Slurm of a release.
func node(text string, version slurm.Version) fstest.MapFS {
	n := fstest.MapFS{
		"etc/slurm/slurm.conf": {Data: []byte(text)}, "etc/slurm/plugstack.conf": {Data: []byte("required spank_gresnet.so\n")},
		"usr/sbin/gresnet-prolog": {Data: []byte("ELF")}, "usr/sbin/gresnet-epilog": {Data: []byte("ELF")}, "etc/gresnet/gresnet.toml": {},
		plugins + "/auth_munge.so": stamptest.Plugin("auth/munge", uint32(version)), plugins + "/spank_gresnet.so": stamptest.Plugin("spank", uint32(version)),
	}
	for _, name := range []string{"Prolog.sh", "Epilog.sh", "Prolog2.sh", "Epilog2.sh", "prolog.d/a", "epilog.d/a"} {
		n["etc/slurm/"+name] = &fstest.MapFile{Data: []byte("#!/bin/sh\n"), Mode: 0o755}
	}
	return n
}

// conf returns a slurm.conf as sites have them.
func conf(r *rand.Rand) string {
	lines := []string{
		"ClusterName=" + pick(r, "c", "C", `"c"`), "SlurmctldHost=" + pick(r, "ctl", "ctl(10.0.0.1)"),
		pick(r, "GresTypes=gpu", "grestypes = gpu # theirs", "GresTypes=\"gpu\"", "# no GRES"),
		pick(r, "PrologFlags=X11", "PrologFlags=Alloc,Serial", "# no flags", "prologflags=Contain"),
		pick(r, "NodeName=node1 CPUs=4 Gres=gpu:8", "NodeName=node1 \\\n\tCPUs=4 \\ # theirs\n NodeAddr=10.9.0.1", `NodeName=node1 Reason="rack \#4"`, "NodeName=node1 CPUs=4 \\ \n Gres=gpu:1"),
		pick(r, "PartitionName=all Nodes=ALL", "PartitionName=all Nodes=node1 \\\n Default=YES"),
		pick(r, `MailProg=/bin/a`, `JobCompPass=a\#b \`, "# the end", ""),
	}
	script := func(key string) string {
		return pick(r, "KEY=/etc/slurm/KEY.sh", "key = /etc/slurm/key.d/* # theirs", "KEY=\\\n /etc/slurm/KEY2.sh", `KEY="/etc/slurm/KEY.sh"`, "KEY=/usr/sbin/gresnet-key", "# no KEY", "KEY=/etc/slurm/gone")
	}
	for _, key := range []string{"Prolog", "Epilog"} {
		for range r.IntN(4) {
			lines = append(lines, strings.NewReplacer("KEY", key, "key", strings.ToLower(key)).Replace(script(key)))
		}
	}
	r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return strings.Join(lines, pick(r, "\n", "\n\n")) + pick(r, "", "\n")
}

// theirs returns scripts without gresnet's.
func theirs(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return path.Base(s) == "gresnet-prolog" || path.Base(s) == "gresnet-epilog" })
}

func TestWhatSetupWritesSlurmReadsAndRunsGresnetInItsPlace(t *testing.T) {
	for _, suite := range Suites() {
		t.Run(suite, func(t *testing.T) {
			ref, r, dir := Start(t, suite), seed.Rand(), t.TempDir()
			version, known := slurm.InstalledVersion(os.DirFS(Root(t, suite)), []string{"/" + plugins})
			if !known {
				t.Fatal("no version")
			}
			done, several := 0, 0
			const most = 500
			for range most {
				text := conf(r)
				write(t, dir, "slurm.conf", text)
				before, ok := ref.Slurm(filepath.Join(dir, "slurm.conf"))
				if !ok {
					continue
				}
				p := setup.Make(setup.Site{Root: node(text, version), Node: "node1", SlurmConf: "/etc/slurm/slurm.conf", Toml: "/etc/gresnet/gresnet.toml", Gres: []string{"nic"}, GresLines: []string{"Name=nic Count=2"}})
				if len(p.Refusals) > 0 {
					if !slices.ContainsFunc(p.Refusals, func(r setup.Refusal) bool { return strings.Contains(r.Text, " of the site's, ") }) {
						t.Fatalf("refused: %v\n%s", p.Refusals, text)
					}
					continue
				}
				done++
				after := text
				folders := map[string]bool{}
				for _, e := range p.Edits {
					folders[filepath.Dir(e.Path)] = true
					if e.Path == "/etc/slurm/slurm.conf" {
						after = string(e.After)
					}
				}
				write(t, dir, "slurm.conf", after)
				now, ok := ref.Slurm(filepath.Join(dir, "slurm.conf"))
				if !ok {
					t.Fatalf("Slurm does not read\n%s\nwhich was\n%s", after, text)
				}
				for key, ours := range map[string]string{"prolog": "/etc/slurm/gresnet-prolog", "epilog": "/etc/slurm/gresnet-epilog"} {
					all := now[key]
					if had := "/usr/sbin/gresnet-" + key; slices.Contains(before[key], had) {
						ours = had
					}
					if !slices.Equal(theirs(all), theirs(before[key])) {
						t.Fatalf("Slurm runs other scripts of the site's: %q, before: %q\n%s", all, before[key], after)
					}
					if !slices.Contains(all, ours) && !folders["/etc/slurm/"+key+".d"] {
						t.Fatalf("Slurm does not run %s: %q\n%s", ours, all, after)
					}
					if slices.Contains(before[key], ours) || !slices.Contains(all, ours) || len(all) == 1 {
						continue
					}
					several++
					if key == "prolog" && all[len(all)-1] != ours || key == "epilog" && all[0] != ours {
						t.Fatalf("%s is not in its place: %q\n%s", ours, all, after)
					}
				}
			}
			t.Logf("%s: %d files, of which setup changed %d; %d times its line is one of several", version, most, done, several)
			if done == 0 || (several > 0) != (version >= slurm.SeveralLines) {
				t.Errorf("%s: setup changed %d files, and added %d lines to others", version, done, several)
			}
		})
	}
}
