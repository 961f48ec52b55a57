package slurmref

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/slurm"
	"gresnet/test/seed"
)

// The keys that ref.c knows.
var (
	simple = []string{"clustername", "jobcomppass", "mailprog", "prolog", "slurmctldhost"}
	wide   = []string{"nodename", "partitionname", "name"}
	inner  = []string{"nodeaddr", "nodehostname", "port", "gres", "reason", "cpus", "name", "file", "files", "type", "count"}
)

func pick(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

// recase writes a key in other cases.
func recase(r *rand.Rand, key string) string {
	out := []byte(key)
	for i := range out {
		if r.IntN(3) == 0 {
			out[i] = strings.ToUpper(key)[i]
		}
	}
	return string(out)
}

// value returns one that a site could write, or an odd one.
func value(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(3) {
		b.WriteString(pick(r, "a", "n[1-3]", "10.9.0.1", "nic:hdr:2", "4", `\#`, `\\`, `\\\#`, `\`, "#", `"`, `"x y"`, "=", "é", "\xff", ",", `\"`, `\ `, "+", ""))
	}
	switch text := b.String(); r.IntN(5) {
	case 0:
		return `"` + text + `"`
	case 1:
		return `"` + text + pick(r, " ", "\t", `\ `, "  ") + text + `"`
	case 2:
		if r.IntN(50) == 0 {
			return strings.Repeat(text, 5000)
		}
		return text
	default:
		return pick(r, "n1", "node[01-04]", "10.0.0.[1-4]", "yes", "/usr/sbin/gresnet-prolog", "gpu:8,nic:4")
	}
}

func pairOf(r *rand.Rand, key string) string {
	return recase(r, key) + pick(r, "=", "=", "=", "=", " = ", "= ", " =", "+=", " -=", "\t*=", "/=\t", "==") + value(r)
}

// line returns one line of a file, or more that a backslash joins.
func line(r *rand.Rand) string {
	end := pick(r, "\n", "\n", "\n", "\n", "\r\n", " \n", "\t\r\n", "# a comment\n", " # a comment \\\n", "\x00 rest\n", "\\\x00\n", "\v\n", "\f\n")
	switch r.IntN(8) {
	case 0:
		return pick(r, "", "#", "# NodeName=x", " ", "\t# x \\") + end
	case 1:
		return pick(r, "Include ", "include\t", "INCLUDE  ", "Include\r", " Include ", "Includes ") + pick(r, "one.conf", "%c.conf", "missing.conf", "*.conf", "./", "./one.conf", `o\ne.conf`, "one.conf more") + pick(r, "\n", " \n", "\r\n", " # x\n")
	case 2:
		return pick(r, "junk", "=", "a=", "Key", "=x", "NodeName", "Nodes==", `\`, `"`, "-=x", "\xe9=x") + end
	case 3, 4:
		text := pairOf(r, pick(r, simple...))
		if r.IntN(12) == 0 {
			text += " " + pairOf(r, pick(r, inner...))
		}
		return pick(r, "", "", "", " ", "\t") + text + end
	}
	text := pairOf(r, pick(r, wide...))
	for range r.IntN(5) {
		text += pick(r, " ", " ", " ", "\t", "  ", " \\\n", "\\\n ", " \\ \n", " \\\t\r\n ", "\\\\\n", " \\\\\\\n ", " \\\n# x\n", " \\ # x\n  ", " \\# \n", "") + pairOf(r, pick(r, inner...))
	}
	return text + end
}

func file(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(8) {
		b.WriteString(line(r))
	}
	text := []byte(b.String())
	for range r.IntN(3) * r.IntN(2) { // one byte or two that are others
		if len(text) > 0 {
			text[r.IntN(len(text))] = pick(r, " ", "\\", "#", "\n", `"`, "=", "a", "\x00", "\r")[0]
		}
	}
	whole := strings.TrimRight(string(text), "\n")
	last := whole[strings.LastIndexByte(whole, '\n')+1:]
	if r.IntN(4) == 0 && !strings.Contains(strings.ToLower(last), "nclude") { // Slurm reads beyond the end of that
		return whole
	}
	return whole + "\n"
}

// read returns what gresnet reads in a file, as Ref.Conf has it. ok is false if Slurm refuses the file by
// what gresnet knows of it.
func read(name string) (pairs []string, ok bool, err error) {
	conf, err := slurm.Read(os.DirFS("/"), name)
	if err != nil {
		return nil, false, err
	}
	ok = true
	for _, l := range conf {
		for i, p := range l.Keys {
			mark := "- "
			if i == 0 {
				mark = "+ "
			}
			pairs = append(pairs, mark+p.Key+"="+p.Value)
			switch {
			case i == 0:
				ok = ok && (slices.Contains(simple, p.Key) || slices.Contains(wide, p.Key))
			default:
				ok = ok && slices.Contains(wide, l.Keys[0].Key) && slices.Contains(inner, p.Key)
			}
		}
	}
	return pairs, ok, nil
}

func TestFilesAreReadAsSlurmReadsThem(t *testing.T) {
	for _, suite := range Suites() {
		t.Run(suite, func(t *testing.T) {
			ref, r, dir := Start(t, suite), seed.Rand(), t.TempDir()
			const most = 5000
			read := 0
			for range most {
				text, one := file(r), file(r)
				write(t, dir, "slurm.conf", text)
				one = strings.NewReplacer("one.conf", "foo.conf", `o\ne.conf`, "foo.conf").Replace(one) // or Slurm never ends
				write(t, dir, "one.conf", one)
				write(t, dir, "foo.conf", "MailProg=foo\n")
				if compare(t, ref, filepath.Join(dir, "slurm.conf"), text, one) {
					read++
				}
				if t.Failed() {
					return
				}
			}
			t.Logf("%d files, of which Slurm reads %d", most, read)
		})
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func compare(t *testing.T, ref *Ref, name, text, one string) (isRead bool) {
	t.Helper()
	want, wanted := ref.Conf(name)
	got, ok, err := read(name)
	switch {
	case err != nil && (strings.HasSuffix(err.Error(), "include names no file") || strings.Contains(err.Error(), "Slurm reads beyond")):
		// Slurm's answer depends on what its memory holds after the line.
	case ok != wanted:
		t.Errorf("Slurm reads it: %t, gresnet: %t (%v)\n%q\none.conf:\n%q\n%s", wanted, ok, err, text, one, diff(got, want))
	case wanted && !slices.Equal(got, want):
		t.Errorf("it is read in another way\n%q\none.conf:\n%q\n%s", text, one, diff(got, want))
	}
	return wanted
}

func diff(got, want []string) string {
	return fmt.Sprintf("gresnet:\n%q\nSlurm:\n%q", got, want)
}
