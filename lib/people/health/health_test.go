package health_test

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/people/health"
)

func at(mode rdma.Mode) health.Node {
	hca := func(name, gres, port string) report.HCA {
		return report.HCA{Name: name, Gres: gres, Ports: []report.Port{{Num: 1, Interface: port}}}
	}
	return health.Node{Inventory: report.Scan{Mode: mode, HCAs: []report.HCA{hca("mlx5_0", "nic", "ib0"), hca("mlx5_1", "nic", "ib1")}}}
}

func TestACheckTellsWhetherItMissesWhatJobsHave(t *testing.T) {
	const named = "its name says that it looks at HCAs"
	for line, want := range map[string]struct{ shared, exclusive string }{
		"check_ib_bw_gdr 380":                               {"", named},
		"check_hw_topology":                                 {"", ""},
		"check_hcas_here 8":                                 {"", named},
		"check_memory 8":                                    {"", ""},
		"check_hw_cpuinfo 2 96 96":                          {"", ""},
		"check_gresnet_hcas 8":                              {"", ""},
		"check_site $(cat /run/gresnet/lent) mlx5_0":        {"", ""},
		"check_fabric_of_site":                              {"", ""},
		"check_calibration 3":                               {"", ""},
		"check_cmd_output -m '/4X/' 'ibstat'":               {"", "sure: jobs have HCAs"},
		"check_net_ping -I ib0 10.0.0.1":                    {"sure: a job has ib0", "sure: a job has ib0"},
		"check_file_test -d /sys/class/infiniband/mlx5_1":   {"", "sure: a job has mlx5_1"},
		"check_hw_ib 400 mlx5_0:1 # the first":              {"", "sure: a job has mlx5_0"},
		"export X=ib0; check_hw_eth eth0":                   {"", ""},
		"check_fs_free / 3% && check_hw_ib 400":             {"", "sure: jobs have all HCAs"},
		"check_hw_ib 400; check_fs_free / 3%":               {"", "sure: jobs have all HCAs"},
		`NCCL_IB_HCA=mlx5_0 check_nccl_allreduce 460.0 1`:   {"", ""},
		"check_ps_service -S sshd":                          {"", ""},
		"check_site --port mlx5_1/1 --speed 400":            {"", "sure: a job has mlx5_1"},
		"check_site --port=mlx5_1":                          {"", "sure: a job has mlx5_1"},
		"check_hw_ib 400 mlx5_9":                            {"", ""},
		"test -e /sys/class/net/ib1/operstate || die 1 'x'": {"sure: a job has ib1", "sure: a job has ib1"},
	} {
		for mode, want := range map[rdma.Mode]string{rdma.Shared: want.shared, rdma.Exclusive: want.exclusive} {
			got := ""
			for _, m := range at(mode).NHC("* || "+line+"\n", "n1") {
				got += strings.Repeat("sure: ", map[bool]int{true: 1}[m.Sure]) + m.Why
			}
			if got != want {
				t.Errorf("%s, in %s mode: %q, wanted %q", line, mode, got, want)
			}
		}
	}
}

func TestALineIsForTheHostsThatItsTargetMayMean(t *testing.T) {
	const sure, may, none = "[{2 check_hw_ib 100 jobs have all HCAs true}]", "[{2 check_hw_ib 100 jobs have all HCAs false}]", "[]"
	for target, want := range map[string]string{
		"*": sure, "n1": sure, "n2": none, "n": none, "n[1-3]": may, "{n1,n2}": may, "/^n/": may, "!n2": may, "n*": may, "# *": none,
	} {
		if got := fmt.Sprint(at(rdma.Exclusive).NHC("# x\n"+target+" || check_hw_ib 100\n", "n1")); got != want {
			t.Errorf("%s: %s, wanted %s", target, got, want)
		}
	}
}
