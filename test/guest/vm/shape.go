package vm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// WithHCAs has ibfake make other HCAs for the time of a test, by options of the module. Their interfaces
// have something to lose.
func WithHCAs(t *testing.T, options string) {
	t.Helper()
	Slurm(t)
	had := strings.TrimSpace(Run(t, "cd /sys/module/ibfake/parameters; grep -H . nib nroce nmin | tr : = | xargs"))
	load := func(options string) {
		Run(t, "modprobe -r ibfake; "+ForgetTable+"; modprobe ibfake "+options+"; udevadm settle\n"+Dress+dressOthers+Repo()+"/bin/gresnet close")
	}
	t.Cleanup(func() {
		load(had)
		WriteConfig(t, Config)
	})
	load(options)
}

// dressOthers gives addresses to interfaces of HCAs that udev has named after their place.
const dressOthers = `
n=101
for i in $(ls /sys/class/net | grep '^en'); do
	ip link set $i up mtu 9000
	ip addr replace 10.$n.0.2/24 dev $i
	ip addr replace 10.$n.0.9/24 dev $i
	ip -6 addr replace fd00:$n::2/64 dev $i nodad
	ip route replace 172.16.$n.0/24 via 10.$n.0.1 dev $i metric 77 proto static
	n=$((n + 1))
done
while ip -6 addr | grep -q tentative; do sleep 0.1; done
`

// Shape says how a driver shows HCAs, and so how much a job has with each.
type Shape struct {
	HCAs       []string // the RDMA devices that a job gets, by their names
	Ports      int
	Interfaces int
	UMAD       int // umad devices
}

// job returns a job that has all HCAs of the shape.
func (s Shape) job() string {
	var gpus []string
	for i := range s.HCAs {
		gpus = append(gpus, fmt.Sprint(i))
	}
	return "SLURM_JOB_ID=900190 SLURM_NODELIST=node1 SLURM_JOB_GPUS=" + strings.Join(gpus, ",")
}

// inShape prints, in a step, what the job has.
const inShape = `
echo "hcas $GRESNET_HCAS"
echo "ports $(ls -d /sys/class/infiniband/*/ports/* | wc -l) told $(tr , '\n' <<<"$GRESNET_PORTS" | grep -c :)"
echo "net $(ls -d /sys/class/net/* | grep -c -v -e /lo$ -e /eth0$)"
echo "addr $(ip -o addr show up scope global | awk '$2 != "eth0"' | wc -l)"
echo "umad $(ls /dev/infiniband | grep -c umad)"
GRESNET_PROBE=/dev/infiniband /tmp/guest.test
`

// GoesToAJob has one of Slurm's jobs get the HCAs of a shape: it sees what it should, and the node gets all back as it
// was.
func (s Shape) GoesToAJob(t *testing.T) (before string) {
	t.Helper()
	s.configure(t)
	before = Picture(t)
	s.runs(t, before)
	return before
}

// GoesToAJobAndBack does so, and then has a job that is killed around lines of its journal get them.
func (s Shape) GoesToAJobAndBack(t *testing.T) {
	t.Helper()
	before := s.GoesToAJob(t)
	kills := KillAnywhere(t, s.job(), func() bool { Same(t, before); return !t.Failed() })
	t.Logf("%d kills", kills)
}

// IsRefused wants a prolog to say why no job can have the HCAs, and to leave the node as it was: also where it
// is killed before it comes to that.
func (s Shape) IsRefused(t *testing.T, why string) {
	t.Helper()
	s.configure(t)
	NoDeadline(t)
	before := Picture(t)
	out, code := ByHand(t, "prolog", s.job())
	NodesFault(t, out, code, why)
	Same(t, before)
	for line := 1; line <= 4; line++ {
		KillAt(t, "prolog", s.job(), Before(line))
		Must(t, "epilog", s.job())
		Same(t, before)
	}
}

// configure gives each GPU an HCA of the shape, in their order.
func (s Shape) configure(t *testing.T) {
	t.Helper()
	text := "[slurm]\nsource = [\"gpu\"]\n[access]\numad = true\n"
	for i, name := range s.HCAs {
		text += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\ngpus = [%[1]d]\n", i, name)
	}
	WriteConfig(t, text)
	t.Cleanup(func() { WriteConfig(t, Config) })
	Run(t, Repo()+"/bin/gresnet close")
}

// runs has a job of Slurm's look at what it has.
func (s Shape) runs(t *testing.T, before string) {
	t.Helper()
	n := len(s.HCAs)
	out := As(t, "alice", fmt.Sprintf("srun --gres=gpu:%d bash -c %s", n, Quote(inShape)))
	for _, want := range []string{
		"hcas " + strings.Join(s.HCAs, ","),
		fmt.Sprintf("ports %d told %[1]d", n*s.Ports),
		fmt.Sprintf("net %d", n*s.Interfaces),
		fmt.Sprintf("addr %d", 3*n*s.Interfaces),
		fmt.Sprintf("umad %d", n*s.UMAD),
	} {
		if !slices.Contains(strings.Split(out, "\n"), want) {
			t.Errorf("the job does not say %q:\n%s", want, out)
		}
	}
	if strings.Count(out, ": context") != n {
		t.Errorf("not every uverbs device answered:\n%s", out)
	}
	Eventually(t, "the epilog has run", NoLease)
	Same(t, before)
}
