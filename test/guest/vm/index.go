package vm

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// reload has the driver let go of all HCAs and take them again, in the order that
// sort has with an option. Names are dealt again.
const reload = `
driver=$(readlink -f /sys/class/infiniband/*/device/driver | sort -u)
devices=$(for d in /sys/class/infiniband/*; do basename "$(readlink -f $d/device)"; done | sort -V OPTION)
for d in $devices; do echo $d >$driver/unbind; done
for d in $devices; do echo $d >$driver/bind; done
udevadm settle
`

// rename gives all HCAs and their interfaces names that they never had.
const rename = `
for d in $(ls /sys/class/infiniband); do rdma dev set $d name mlx5_${d#ibfake}; done
for i in $(ls /sys/class/net | grep -E '^(roce|ib)'); do
	ip link set $i down
	ip link set $i name port_$i
done
udevadm settle
`

// guids returns the HCAs' GUIDs by Slurm's index, as two jobs find them that have all.
func guids(t *testing.T, count int) []string {
	t.Helper()
	found := make([]string, count)
	var jobs []string
	for first, n := 0, 1; first < count; first, n = first+n, count-1 {
		job := Submit(t, "alice", fmt.Sprintf("--gres=nic:%d", n), "srun bash -c 'for h in ${GRESNET_HCAS//,/ }; do cat /sys/class/infiniband/$h/node_guid; done; sleep 1000'")
		jobs = append(jobs, job)
		var said []string
		Eventually(t, "job "+job+" says its HCAs' GUIDs", func() bool {
			out, _ := Try("cat /tmp/" + job + ".out")
			said = regexp.MustCompile(`(?m)^[0-9a-f]{4}(:[0-9a-f]{4}){3}$`).FindAllString(out, -1)
			return len(said) == n
		})
		// Slurm deals indices from the lowest, and the lease has them in their order.
		wanted := fmt.Sprintf("GRES=nic:%d(IDX:%s)", n, indices(first, n))
		if out := Run(t, "scontrol show job -d "+job); !strings.Contains(out, wanted) {
			t.Fatalf("wanted %s:\n%s", wanted, out)
		}
		copy(found[first:], said)
	}
	Run(t, "scancel "+strings.Join(jobs, " "))
	for _, job := range jobs {
		Ended(t, job)
	}
	return found
}

// indices are so many in a row, as Slurm writes them.
func indices(first, n int) string {
	if n == 1 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, first+n-1)
}

// KeepTheirIndices holds jobs to get the HCAs that their indices mean after all of
// these were let go of, found in another order and given other names.
func KeepTheirIndices(t *testing.T, key string) {
	t.Helper()
	field := func(name string) []string {
		return strings.Fields(Run(t, Repo()+"/bin/gresnet scan --json | jq -r '.hcas | sort_by(.index)[].id."+name+"'"))
	}
	numbered, ids := field("guid"), field(key)
	listed, text := make([]string, len(ids)), AskScontrol
	for i := range ids {
		// In another order than the node's own.
		other := len(ids) - 1 - i
		listed[i] = numbered[other]
		text += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"%s=%s\"\n", i, key, ids[other])
	}
	names := Run(t, "rdma -j dev | jq -r '.[] | .ifname + \" \" + .node_guid' | sort")
	// What the package's udev rule does for device nodes that are made again.
	closed := Repo() + "/bin/gresnet close"
	t.Cleanup(func() {
		Run(t, strings.Replace(reload, "OPTION", "", 1)+Dress+closed)
	})
	// The node table has the names of before.
	As(t, "alice", "srun --gres=nic:1 true")
	Eventually(t, "the epilog has run", NoLease)
	Run(t, strings.Replace(reload, "OPTION", "-r", 1)+rename+closed)
	if dealt := Run(t, "rdma -j dev | jq -r '.[] | .ifname + \" \" + .node_guid' | sed s/mlx5_/ibfake/ | sort"); dealt == names {
		t.Fatalf("the HCAs have the names that they had, but for what they were given:\n%s", dealt)
	}
	now := AskScontrol
	for i, guid := range listed {
		name := strings.TrimSpace(Run(t, "rdma -j dev | jq -r '.[] | select(.node_guid == \""+guid+"\").ifname'"))
		now += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\n", i, name)
	}
	renamed := Picture(t)
	for _, c := range []struct {
		name, config string
		want         []string
	}{
		{"numbered", AskScontrol, numbered},
		{"listed", text, listed},
		{"by the names that they have now", now, listed},
	} {
		WithSource(t, c.config)
		if got := guids(t, len(c.want)); strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: jobs have, by index, %q, wanted %q", c.name, got, c.want)
		}
		Same(t, renamed)
	}
}
