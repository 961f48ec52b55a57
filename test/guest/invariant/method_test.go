package invariant

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"gresnet/test/guest/vm"
	"gresnet/test/picture/whole"
)

// given is a setting of one interface, and what became of it.
type given struct {
	setting
	place
	shown *regexp.Regexp // shows, filled in
	fate  fate
	words string // the kernel's, or the prolog's
}

// place is an interface of an HCA of the job's.
type place struct{ name, number, device, address, queue string }

type fate string

const (
	notHere  fate = "could not be set here"
	restored fate = "restored"
	refused  fate = "refused"
	reported fate = "reported"
	left     fate = "left"
)

// fill has a text name the place.
func (p place) fill(text string) string {
	return strings.NewReplacer("$N", regexp.QuoteMeta(p.name), "$I", p.number, "$D", p.device).Replace(text)
}

// shell begins a shell's commands for a place.
func (p place) shell() string {
	return fmt.Sprintf("N=%s; I=%s; D=%s; M=%s; Q=%s\n", p.name, p.number, p.device, p.address, p.queue)
}

func (p place) kind() string {
	if strings.HasPrefix(p.name, ipoib) {
		return ipoib
	}
	return eth
}

// placeOf returns the place of an interface that has been dressed, see vm.Dress.
func placeOf(t *testing.T, name string) place {
	t.Helper()
	f := strings.Fields(vm.Run(t, "cd /sys/class/net/"+name+"; ls device/infiniband; cat address tx_queue_len; ip -4 -o addr show dev "+name))
	return place{name: name, device: f[0], address: f[1], queue: f[2], number: strings.Split(f[6], ".")[1]} // 10.I.0.2/24
}

// give gives settings, each in a shell of its own, and tells those that could not be had.
// What one has of those is taken away again.
func give(t *testing.T, all []*given) {
	t.Helper()
	script := "set +e\n"
	for i, g := range all {
		if g.fate == "" {
			script += fmt.Sprintf("(set -e; %s%s) >/tmp/said 2>&1; [ $? = 0 ] || echo \"%d $(tr '\\n' ' ' </tmp/said)\"\n", g.shell(), g.give, i)
		}
	}
	for l := range strings.Lines(vm.Run(t, script+"true")) {
		number, words, _ := strings.Cut(strings.TrimSpace(l), " ")
		g := all[vm.Atoi(number)]
		g.fate, g.words = notHere, words
	}
	var undo []*given
	for _, g := range all {
		if g.fate == notHere {
			undo = append(undo, g)
		}
	}
	takeAway(t, undo)
}

// takeAway takes settings away, the last first; some take others along.
func takeAway(t *testing.T, all []*given) {
	t.Helper()
	script := "set +e\n"
	for _, g := range slices.Backward(all) {
		script += "(" + g.shell() + g.take + ") >/dev/null 2>&1\n"
	}
	vm.Run(t, script+"true")
}

// factsNow returns the whole picture as a set of facts, each with how often it is there.
func factsNow(t *testing.T) map[string]int {
	t.Helper()
	text, err := whole.Picture()
	if err != nil {
		t.Fatal(err)
	}
	facts := map[string]int{}
	for l := range strings.Lines(text) {
		facts[strings.TrimSuffix(l, "\n")]++
	}
	return facts
}

// missing returns the facts of one picture that another one does not have.
func missing(of, in map[string]int) (facts []string) {
	for f, n := range of {
		if in[f] < n {
			facts = append(facts, f)
		}
	}
	slices.Sort(facts)
	return facts
}

// about returns what a fact is about: a file, or what somebody was asked, and of what.
func about(fact string) string {
	if strings.HasPrefix(fact, "/") {
		return strings.SplitN(fact, " ", 2)[0]
	}
	if of := named.FindString(fact); of != "" {
		return strings.SplitN(fact, " ", 2)[0] + " " + of
	}
	if question, answer, ok := strings.Cut(fact, ": "); ok && !strings.HasPrefix(fact, "ip maddr ") {
		return question + ": " + strings.SplitN(answer, " ", 2)[0]
	}
	if rule, of, ok := strings.Cut(fact, " iif "); ok { // by its name, or by an index that is nobody's
		return rule + strings.TrimLeft(of, `"abcdefghijklmnopqrstuvwxyz0123456789.`)
	}
	return fact
}

// named is what a fact in JSON is about.
var named = regexp.MustCompile(`"(ifname|dst)":"[^"]*"`)

// row is a row of docs/restore.md.
type row struct{ what, fate, how string }

func rows(t *testing.T) (all []row) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(vm.Repo(), "docs/restore.md"))
	if err != nil {
		t.Fatal(err)
	}
	var last row
	for l := range strings.Lines(string(text)) {
		cells := strings.Split(l, "|")
		if len(cells) != 5 {
			continue
		}
		r := row{strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])}
		if r.what == "" {
			r.what = last.what
		}
		if r.fate == "" {
			r.fate = last.fate
		}
		all, last = append(all, r), r
	}
	return all
}

// fits tells that a row says of a setting what became of it. What is left to a driver that
// keeps it comes back, too.
func (r row) fits(g *given) bool {
	if !strings.Contains(r.what+" "+r.how, g.row) {
		return false
	}
	return strings.HasPrefix(r.fate, string(g.fate)) || g.fate == restored && strings.HasPrefix(r.fate, string(left))
}

// eachSysctl returns all sysctls of a place that no other setting of the table is about, each set
// to what it is not.
func eachSysctl(t *testing.T, p place) (all []*given) {
	t.Helper()
	for _, folder := range []string{"ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh"} {
		paths, err := filepath.Glob("/proc/sys/net/" + folder + "/" + p.name + "/*")
		if err != nil || len(paths) == 0 {
			t.Fatalf("no sysctls in %s: %v", folder, err)
		}
		for _, path := range paths {
			switch filepath.Base(path) {
			case "disable_ipv6", "mtu", "stable_secret", "addr_gen_mode", "forwarding": // have rows of their own
				continue
			case "base_reachable_time", "retrans_time", "unres_qlen": // in other units what others are
				continue
			}
			g := &given{place: p, setting: setting{name: strings.TrimPrefix(path, "/proc/sys/net/"), row: "sysctls: ipv4/conf", batch: 1}}
			g.setAnother(path)
			all = append(all, g)
		}
	}
	return all
}

// setAnother gives a sysctl a value that it does not have, if the kernel takes one.
func (g *given) setAnother(path string) {
	old, err := os.ReadFile(path)
	if err != nil {
		g.fate, g.words = notHere, err.Error()
		return
	}
	was := strings.TrimSpace(string(old))
	n, _ := strconv.ParseInt(was, 10, 64)
	for _, value := range []int64{2 * n, n / 2, 1, 0} {
		err = os.WriteFile(path, fmt.Appendln(nil, value), 0)
		is, _ := os.ReadFile(path)
		if now := strings.TrimSpace(string(is)); now != was {
			g.give, g.take = "true", "echo "+was+" >"+path
			g.shown = regexp.MustCompile("^" + regexp.QuoteMeta(path+" "+now) + "$")
			return
		}
	}
	g.fate, g.words = notHere, fmt.Sprint(err)
}

const methodJob = "SLURM_JOB_ID=900031 SLURM_JOB_GPUS=0,1"

// pinXDP puts the XDP program that lets all pass where tools find it.
func pinXDP(t *testing.T) {
	t.Helper()
	program := []uint64{0x2_0000_00b7, 0x95} // r0 = XDP_PASS; exit
	license := []byte("GPL\x00")
	path := []byte("/sys/fs/bpf/pass\x00")
	// union bpf_attr of BPF_PROG_LOAD and of BPF_OBJ_PIN (linux/bpf.h).
	load := struct {
		kind, count       uint32
		program, license  uint64
		logLevel, logSize uint32
		log               uint64
	}{unix.BPF_PROG_TYPE_XDP, uint32(len(program)), uint64(uintptr(unsafe.Pointer(&program[0]))), uint64(uintptr(unsafe.Pointer(&license[0]))), 0, 0, 0}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&load)), unsafe.Sizeof(load))
	if errno != 0 {
		t.Fatalf("load an XDP program: %v", errno)
	}
	defer unix.Close(int(fd))
	pin := struct {
		path uint64
		fd   uint64
	}{uint64(uintptr(unsafe.Pointer(&path[0]))), uint64(fd)}
	if _, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_OBJ_PIN, uintptr(unsafe.Pointer(&pin)), unsafe.Sizeof(pin)); errno != 0 {
		t.Fatalf("pin an XDP program: %v", errno)
	}
	t.Cleanup(func() { os.Remove("/sys/fs/bpf/pass") })
}

// Each thing that can be set of an interface, or of an RDMA device, is set once; a job has the
// HCA, and returns it. What is not as it was then has a row in docs/restore.md that says so.
func TestWhatCanBeSetComesBackOrHasARowThatSaysOtherwise(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	var places []place
	for _, name := range vm.HCAsWithGPUs(t) {
		places = append(places, placeOf(t, strings.TrimSpace(vm.Run(t, "ls /sys/class/infiniband/"+name+"/device/net"))))
	}
	pinXDP(t)
	// What the kernel has of itself when it has these is no setting.
	vm.Run(t, "modprobe -a mpls_iptunnel mpls_router fou l2tp_eth ip_gre; modprobe bonding max_bonds=0; ip link add vrf9 type vrf table 900; ip link del vrf9")
	base, bare := vm.Picture(t), factsNow(t)
	var all []*given
	for _, s := range settings {
		for _, p := range places {
			if s.on != "" && s.on != p.kind() {
				continue
			}
			all = append(all, &given{setting: s, place: p, shown: regexp.MustCompile(p.fill(s.shows))})
		}
	}
	last := 0
	for _, g := range all {
		last = max(last, g.batch)
	}
	for batch := 0; batch <= last; batch++ {
		var of []*given
		for _, g := range all {
			if g.batch == batch && !g.alone {
				of = append(of, g)
			}
		}
		if batch == 1 {
			for _, p := range places {
				one := eachSysctl(t, p)
				of, all = append(of, one...), append(all, one...)
			}
		}
		t.Logf("batch %d: %d settings", batch, len(of))
		round(t, of, bare)
		takeAway(t, of)
		vm.Run(t, vm.GiveAddresses)
		if vm.Same(t, base); t.Failed() {
			t.Logf("after batch %d was taken away", batch)
		}
	}
	for _, g := range all {
		if g.alone {
			onItsOwn(t, g, bare)
		}
	}
	vm.Run(t, vm.GiveAddresses)
	vm.Same(t, base)
	everyAttribute(t, places, all)
	tell(t, all)
}

// round gives settings, takes the HCAs for a job and returns them, and looks what has
// become of each. Of what an epilog reports that has returned several, each is tried by itself.
func round(t *testing.T, all []*given, bare map[string]int) {
	t.Helper()
	give(t, all)
	before := factsNow(t)
	told := slices.Collect(maps.Keys(before))
	for _, g := range all {
		if g.fate == "" && !slices.ContainsFunc(told, func(f string) bool { return g.shown.MatchString(f) && (bare[f] == 0 || g.give == "true") }) {
			t.Errorf("%s of %s: the picture does not show it: %s", g.setting.name, g.place.name, g.shown)
		}
	}
	if out, code := vm.ByHand(t, "prolog", methodJob); code != 0 || out != "" {
		settle(t, all)
		switch {
		case len(all) == 1 && code == 1:
			all[0].fate, all[0].words = refused, out
		case len(all) == 1 && code == 2:
			all[0].fate, all[0].words = reported, out
		case len(all) > 1 && len(all) < 8 && code != 0:
			t.Logf("prolog of a round of %d: exit %d: %s", len(all), code, out)
			oneByOne(t, all, bare)
		default:
			t.Errorf("prolog: exit %d, so nothing of this round is tried: %s", code, out)
		}
		return
	}
	out, code := vm.ByHand(t, "epilog", methodJob)
	if code != 0 && code != 2 {
		t.Fatalf("epilog: exit %d: %s", code, out)
	}
	after := factsNow(t)
	lost, new := missing(before, after), missing(after, before)
	explained := map[string]bool{}
	for _, g := range all {
		if g.fate == notHere {
			continue
		}
		g.fate, g.words = restored, ""
		for _, f := range lost {
			if g.shown.MatchString(f) {
				g.fate, g.words = left, f
				explained[f], explained[about(f)] = true, true
			}
		}
		if i := slices.IndexFunc(new, func(f string) bool { return g.fate == left && about(f) == about(g.words) }); i >= 0 {
			g.words += "\nafter: " + new[i]
		}
	}
	for _, f := range slices.Concat(lost, new) {
		if !explained[f] && !explained[about(f)] {
			t.Errorf("no setting tells of this difference (%d before, %d after): %s", before[f], after[f], f)
		}
	}
	if code == 0 {
		return
	}
	lone := slices.DeleteFunc(slices.Clone(all), func(g *given) bool { return g.fate != left })
	t.Logf("epilog of a round of %d, of which %d are not as they were: exit 2: %s", len(all), len(lone), out)
	settle(t, all)
	if len(all) == 1 {
		if len(lone) == 0 {
			t.Errorf("the epilog reports what the picture does not show: %s", out)
		}
		all[0].fate, all[0].words = reported, out
		return
	}
	oneByOne(t, lone, bare)
}

// oneByOne makes a round of each setting.
func oneByOne(t *testing.T, all []*given, bare map[string]int) {
	t.Helper()
	for _, g := range all {
		if g.fate == notHere {
			continue
		}
		g.fate = ""
		round(t, []*given{g}, bare)
		takeAway(t, []*given{g})
		vm.Run(t, vm.GiveAddresses)
	}
}

// settle has the node be as one without leases, after an epilog that could not return all:
// what stood in the way is taken away, and a person lets jobs have the HCAs again.
func settle(t *testing.T, all []*given) {
	t.Helper()
	takeAway(t, all)
	vm.Run(t, vm.GiveAddresses)
	if out, code := vm.ByHand(t, "epilog", methodJob); code != 0 {
		t.Logf("the next epilog: exit %d: %s", code, out)
	}
	for _, name := range vm.HCAs(t) {
		if out, code := vm.Command(t, "gresnet release "+name); code != 0 && !strings.Contains(out, "is quarantined") {
			t.Errorf("release %s: exit %d: %s", name, code, out)
		}
	}
	if !vm.NoLease() {
		t.Fatalf("a lease is left: %s", vm.Run(t, "ls /run/gresnet/jobs"))
	}
}

// onItsOwn gives a setting that a prolog refuses, of which others shall not be kept. One that it
// takes makes a round of its own.
func onItsOwn(t *testing.T, g *given, bare map[string]int) {
	t.Helper()
	defer takeAway(t, []*given{g})
	if give(t, []*given{g}); g.fate == notHere {
		return
	}
	out, code := vm.ByHand(t, "prolog", methodJob)
	if code == 1 && strings.Contains(out, g.place.name) {
		g.fate, g.words = refused, strings.SplitN(out, "\n", 2)[0]
		return
	}
	t.Logf("%s of %s: the prolog does not refuse it, exit %d: %s", g.setting.name, g.place.name, code, out)
	vm.ByHand(t, "epilog", methodJob)
	takeAway(t, []*given{g})
	round(t, []*given{g}, bare)
}

// everyAttribute holds the table to have all that can be written of the places in sysfs.
func everyAttribute(t *testing.T, places []place, all []*given) {
	t.Helper()
	queue := regexp.MustCompile(`/(rx|tx)-\d+/`)
	for _, p := range places {
		for _, top := range []string{"/sys/class/net/" + p.name, "/sys/class/infiniband/" + p.device} {
			for _, f := range strings.Fields(vm.Run(t, "find "+top+"/ -type f -perm /222")) {
				attribute := queue.ReplaceAllString(strings.TrimLeft(strings.TrimPrefix(f, top), "/"), "/$1-0/")
				about := func(g *given) bool {
					return strings.Contains(queue.ReplaceAllString(g.shows+g.give, "/$1-0/"), attribute)
				}
				if unset[attribute] == "" && !slices.ContainsFunc(all, about) {
					t.Errorf("no setting is about %s", f)
				}
			}
		}
	}
}

// unset are the attributes that no setting is about, and why.
var unset = map[string]string{
	"queues/tx-0/byte_queue_limits/limit":      "is measured by the kernel",
	"queues/tx-0/byte_queue_limits/stall_thrs": "sets off a counter that tells of drivers' faults",
	"queues/tx-0/byte_queue_limits/stall_max":  "is that counter",
	"uevent":                     "asks udev to look again",
	"carrier":                    "is the driver's to say",
	"flags":                      "has a setting for each of its bits",
	"mtu":                        "has settings for each kind",
	"create_child":               "makes P_Key children, as ip does",
	"delete_child":               "removes them",
	"power/async":                "is about the machine's sleep",
	"power/autosuspend_delay_ms": "is about the machine's sleep",
	"power/wakeup":               "is about the machine's sleep",
}

// tell prints what has become of each setting, counts, and holds each to its row.
func tell(t *testing.T, all []*given) {
	t.Helper()
	table := rows(t)
	count := map[fate]int{}
	var out strings.Builder
	for _, g := range all {
		count[g.fate]++
		fmt.Fprintf(&out, "%-9s %-6s %s", g.fate, g.place.name, g.setting.name)
		if g.fate != restored {
			fmt.Fprintf(&out, ": %.200s", strings.SplitN(g.words, "\n", 2)[0])
			if _, after, ok := strings.Cut(g.words, "\nafter: "); ok && g.fate == left {
				fmt.Fprintf(&out, " -> %.200s", after)
			}
		}
		out.WriteByte('\n')
		if g.fate != "" && g.fate != notHere && !slices.ContainsFunc(table, func(r row) bool { return r.fits(g) }) {
			t.Errorf("%s of %s was %s: docs/restore.md has no row with %q that says so\n%s", g.setting.name, g.place.name, g.fate, g.row, g.words)
		}
	}
	tried := len(all) - count[notHere] - count[""]
	t.Logf("%d settings tried in %s mode: %d restored, %d refused, %d reported, %d left; %d could not be set here\n%s",
		tried, vm.Mode(t), count[restored], count[refused], count[reported], count[left], count[notHere], &out)
	series := strings.Join(strings.SplitN(vm.Run(t, "uname -r"), ".", 3)[:2], ".")
	counted(t, fmt.Sprintf("| %s | %s |", series, vm.Mode(t)),
		fmt.Sprintf(" %d | %d | %d | %d | %d | %d |", tried, count[restored], count[refused], count[reported], count[left], count[notHere]))
}

// counted holds docs/restore.md to say how many settings were tried, where it speaks of this
// kernel in this mode.
func counted(t *testing.T, of, counts string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(vm.Repo(), "docs/restore.md"))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(text)) {
		if says, ok := strings.CutPrefix(strings.TrimSpace(l), of); ok {
			if says != counts {
				t.Errorf("docs/restore.md counts otherwise, it should say\n%s%s", of, counts)
			}
			return
		}
	}
	t.Logf("docs/restore.md does not count\n%s%s", of, counts)
}
