package network

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

func TestAPlanShowsTheAddressesAndNamesThatTheJobThenHas(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	names := vm.WithGPUs(t)
	vm.WriteConfig(t, vm.Run(t, "cat /etc/gresnet/gresnet.toml")+"\n[uplink]\nkind = \"auto\"\n")
	link := vm.Run(t, "rdma -j link | jq -r '.[] | select(.ifname == \""+names[0]+"\").netdev // empty'")
	if link = strings.TrimSpace(link); link == "" || link == "null" {
		link = strings.TrimSpace(vm.Run(t, "ls /sys/class/infiniband/"+names[0]+"/device/net | head -n 1"))
	}
	vm.Run(t, "ip link set "+link+" up; ip addr add 10.77.0.7/16 dev "+link)
	t.Cleanup(func() { vm.Run(t, "ip addr del 10.77.0.7/16 dev "+link+"; ip link set "+link+" down") })
	before := vm.Picture(t)
	const job = "SLURM_JOB_ID=900021 SLURM_JOB_GPUS=0 SLURM_NODELIST=node1 "
	var plan struct {
		HCAs []struct {
			Name  string
			Ports []struct {
				Interface string
				Addresses []string
			}
		}
		Uplink  struct{ Interface, Address string }
		Overlay struct{ Interface, Address string }
	}
	text := vm.Run(t, vm.SlurmdEnv+job+vm.Repo()+"/bin/gresnet plan --job 900021 --json")
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		t.Fatal(err)
	}
	t.Log(vm.Run(t, vm.SlurmdEnv+job+vm.Repo()+"/bin/gresnet plan --job 900021"))
	vm.Same(t, before)
	if len(plan.HCAs) != 1 || plan.HCAs[0].Name != names[0] || !slices.Contains(plan.HCAs[0].Ports[0].Addresses, "10.77.0.7/16") {
		t.Errorf("the plan lacks %s with 10.77.0.7/16:\n%s", names[0], text)
	}
	vm.Must(t, "prolog", job)
	has := vm.Run(t, "nsenter --net=/run/gresnet/jobs/900021/netns ip -j addr | jq -r '.[] | .ifname as $i | .addr_info[] | \"\\($i) \\(.local)/\\(.prefixlen)\"'")
	want := []string{plan.Overlay.Interface + " " + plan.Overlay.Address}
	for _, h := range plan.HCAs {
		for _, p := range h.Ports {
			for _, a := range p.Addresses {
				want = append(want, p.Interface+" "+a)
			}
		}
	}
	for _, w := range want {
		if !slices.Contains(strings.Split(has, "\n"), w) {
			t.Errorf("the plan has %q, the job\n%s", w, has)
		}
	}
	vm.Run(t, "nsenter --net=/run/gresnet/jobs/900021/netns ip link show "+plan.Uplink.Interface)
	if plan.Overlay.Interface != "eth0" || plan.Overlay.Address != "192.0.2.1/24" {
		t.Errorf("the plan has another address than the node's:\n%s", text)
	}
	// What a program asks and what its packets do: see virtual.ShowDefault.
	for ask, dev := range map[string]string{"": "eth0", " ipproto tcp dport 443": plan.Uplink.Interface, " ipproto udp dport 53": plan.Uplink.Interface} {
		if got := vm.Run(t, "nsenter --net=/run/gresnet/jobs/900021/netns ip route get 8.8.8.8"+ask); !strings.Contains(got, " dev "+dev+" ") || !strings.Contains(got, " src 192.0.2.1 ") {
			t.Errorf("the route to 8.8.8.8%s, wanted by %s: %s", ask, dev, got)
		}
	}
	vm.Must(t, "epilog", job)
	vm.Same(t, before)
}
