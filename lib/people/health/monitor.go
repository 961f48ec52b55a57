package health

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
)

// Monitor is a program that watches HCAs, and has a recipe in docs/operators.md.
type Monitor struct {
	Name string
	Acts bool // it takes the node out of service, or says that it should be
	// Shared says that it misses what jobs have in shared mode, too: interfaces.
	Shared bool

	processes []string // their names, as the kernel cuts them: 15 bytes
	units     []string // services that start it
	file      string   // a pattern of files that are there where it runs
	says      string   // that one of them says, if it must
}

// Monitors are those that are looked for. What each looks at is from its source or its manual.
var Monitors = []Monitor{
	{Name: "NVSentinel", Acts: true, Shared: true, processes: []string{"nic-health-moni"}},
	{Name: "gpud", Acts: true, processes: []string{"gpud"}, units: []string{"gpud"}},
	{Name: "sichek", Acts: true, processes: []string{"sichek"}},
	{Name: "node-problem-detector", Acts: true, Shared: true, processes: []string{"node-problem-de"}, units: []string{"node-problem-detector"}},
	{Name: "node_exporter", Shared: true, processes: []string{"node_exporter", "prometheus-node"}, units: []string{"prometheus-node-exporter", "node_exporter"}},
	{Name: "Telegraf", file: "etc/telegraf/telegraf.conf", says: telegraf},
	{Name: "Telegraf", file: "etc/telegraf/telegraf.d/*.conf", says: telegraf},
	{Name: "rdma_exporter", processes: []string{"rdma_exporter"}, units: []string{"rdma_exporter"}},
	{Name: "Netdata", Shared: true, processes: []string{"netdata"}, units: []string{"netdata"}},
	{Name: "LDMS", processes: []string{"ldmsd"}},
}

const telegraf = `(?m)^\s*\[\[inputs\.infiniband\]\]`

// Found is a monitor, and how it was found.
type Found struct {
	Monitor
	How string
}

// Find looks for monitors on a node: processes that are no user's, services and files.
func (n Node) Find() (all []Found) {
	running := n.processes()
	for _, m := range Monitors {
		if how := n.find(m, running); how != "" && !slices.ContainsFunc(all, func(f Found) bool { return f.Name == m.Name }) {
			all = append(all, Found{m, how})
		}
	}
	return all
}

func (n Node) find(m Monitor, running map[string]int) string {
	for _, name := range m.processes {
		if pid, is := running[name]; is {
			return "runs as process " + strconv.Itoa(pid)
		}
	}
	for _, name := range m.units {
		for _, dir := range []string{"etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"} {
			if _, err := fs.Stat(n.Root, path.Join(dir, name+".service")); err == nil {
				return "is installed as " + name + ".service"
			}
		}
	}
	files, _ := fs.Glob(n.Root, m.file)
	for _, file := range files {
		text, err := fs.ReadFile(n.Root, file)
		if is, _ := regexp.Match(m.says, text); err == nil && is {
			return "is configured in /" + file
		}
	}
	return ""
}

// firstUser is the first uid that a user may have (login.defs, UID_MIN), and nobody is where a
// service runs that is to be nobody's.
const firstUser, nobody = 1000, 65534

var status = regexp.MustCompile(`(?s)^Name:\t([^\n]*)\n(?:.*\n)?Uid:\t(\d+)\t`)

// processes lists the names of processes that are no user's: a user may call his own as he likes.
func (n Node) processes() map[string]int {
	all := map[string]int{}
	entries, _ := fs.ReadDir(n.Root, "proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, _ := fs.ReadFile(n.Root, "proc/"+e.Name()+"/status") // it may have ended
		m := status.FindStringSubmatch(string(text))
		if m == nil {
			continue
		}
		if uid, _ := strconv.Atoi(m[2]); uid < firstUser || uid == nobody {
			all[m[1]] = pid
		}
	}
	return all
}
