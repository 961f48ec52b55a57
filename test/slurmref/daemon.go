package slurmref

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/slurm"
	"gresnet/test/netnstest"
)

// Daemon is a release's slurmd, which says what GRES the node n1 has (slurmd -G), by files in a folder of
// its own.
type Daemon struct {
	t         *testing.T
	root, dir string
	plugin    string
}

// StartDaemon prepares a slurmd.
func StartDaemon(t *testing.T, suite string) *Daemon {
	t.Helper()
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to run slurmd in a folder of its own")
	}
	root := Root(t, suite)
	// What the packages' scripts would have made, which nobody runs.
	for _, name := range []string{"lib", "lib64"} {
		if _, err := os.Lstat(filepath.Join(root, name)); errors.Is(err, os.ErrNotExist) {
			use(t, os.Symlink("usr/"+name, filepath.Join(root, name)))
		}
	}
	if err := os.Symlink("slurmd-wlm", filepath.Join(root, "usr/sbin/slurmd")); !errors.Is(err, os.ErrExist) {
		use(t, err)
	}
	use(t, os.MkdirAll(filepath.Join(root, "g"), 0o755))
	for _, name := range []string{"nic0", "nic1", "nic2", "nic3", "nic00", "nic01", "nic0p0", "nic0p1", "nic1p0", "nic1p1"} {
		if err := unix.Mknod(filepath.Join(root, "g", name), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); !errors.Is(err, unix.EEXIST) {
			use(t, err)
		}
	}
	dir, err := os.MkdirTemp(filepath.Join(root, "tmp"), "gres")
	use(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &Daemon{t: t, root: root, dir: dir, plugin: "disabled"}
	if suite == "bookworm" {
		d.plugin = "cgroup/v1" // it does nothing where no such tree is
	}
	d.Write("cgroup.conf", "CgroupPlugin="+d.plugin+"\n")
	return d
}

func use(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Path returns a file of the slurmd's folder.
func (d *Daemon) Path(name string) string { return filepath.Join(d.dir, name) }

// Write writes a file into the slurmd's folder.
func (d *Daemon) Write(name, text string) {
	d.t.Helper()
	use(d.t, os.WriteFile(d.Path(name), []byte(text), 0o600))
}

// Conf returns a slurm.conf with more lines.
func (d *Daemon) Conf(lines string) string {
	return "ClusterName=c\nSlurmctldHost=n1\nAuthType=auth/none\nCredType=cred/none\nProctrackType=proctrack/linuxproc\n" +
		"TaskPlugin=task/none\nMpiDefault=none\nGresTypes=nic,gpu,opa\nSlurmdSpoolDir=/tmp\nSlurmdPidFile=/tmp/pid\n" +
		lines + "PartitionName=p Nodes=n1\n"
}

var recordLine = regexp.MustCompile(`Gres Name=(\S+) Type=(\S+) Count=(\d+) .*?ID=\d+(?: File=(\S+))?`)

// Gres returns the devices of a GRES in the order of their indices, each with its type and its files. why is
// what slurmd refuses the files for.
func (d *Daemon) Gres(name string) (all []string, why string) {
	d.t.Helper()
	cmd := exec.Command("/usr/sbin/slurmd", "-G", "-N", "n1", "-f", strings.TrimPrefix(d.Path("slurm.conf"), d.root))
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: d.root}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		for _, line := range strings.Split(string(out), "\n") {
			if strings.Contains(line, "fatal") || strings.Contains(line, "error") {
				why = line
			}
		}
		return nil, why + " (" + err.Error() + ")"
	}
	use(d.t, err)
	for _, m := range recordLine.FindAllStringSubmatch(string(out), -1) {
		if strings.EqualFold(m[1], name) {
			all = append(all, record(d.t, m)...)
		}
	}
	return all, ""
}

// record returns one line of slurmd's: devices of one type.
func record(t *testing.T, m []string) (all []string) {
	t.Helper()
	kind := strings.TrimPrefix(m[2], "(null)")
	count, err := strconv.Atoi(m[3])
	use(t, err)
	var files []string
	if m[4] != "" && m[4] != "(null)" {
		list, err := slurm.ParseHostlist(m[4])
		use(t, err)
		files, err = list.Names(1000)
		use(t, err)
	}
	if len(files) > count && count > 0 {
		return []string{kind + " " + strings.Join(files, " ")} // MultipleFiles
	}
	for i := range count {
		file := ""
		if len(files) > 0 {
			file = files[i]
		}
		all = append(all, kind+" "+file)
	}
	return all
}
