package health_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/people/health"
	"gresnet/lib/slurm/nhc"
)

// scripts are checks of the kinds that sites add to NHC's own: Azure's azurehpc-health-checks measure
// bandwidth, count lost carriers and compare a topology; others count HCAs.
const scripts = `function check_ib_bw_gdr() {
   devices=($(determine_IB_devices))
   $ROOT/bin/ib_write_bw -d $device
}
function determine_IB_devices(){
   mapfile -t devices < <(ibstat -l)
}
function check_ib_link_flapping() {
   grep -i 'lost carrier' /var/log/syslog
}
function check_hw_topology() {
   lstopo-no-graphics
}
check_hcas_here() {
  nhc_hw_gather_data
  for i in /sys/class/infiniband/*; do :; done
}
function nhc_hw_gather_data() {
    IB_PORTS=( /sys/class/infiniband/*/ports/* )
}
function check_memory() {
  nhc_hw_gather_data
}
function check_hw_cpuinfo() {
    for i in /sys/class/infiniband/*; do :; done
}
function check_knowing() {
  ibstat -l | grep -v "$(cat /run/gresnet/lent)"
}
`

func at(mode rdma.Mode) health.Node {
	hca := func(name, gres, port string) report.HCA {
		return report.HCA{Name: name, Gres: gres, Ports: []report.Port{{Num: 1, Interface: port}}}
	}
	return health.Node{
		Root: fstest.MapFS{
			"etc/nhc/scripts/site.nhc": {Data: []byte(scripts)},
			"opt/check-ib":             {Data: []byte("#!/bin/sh\nibv_devinfo\n")},
		},
		Inventory: report.Scan{Mode: mode, HCAs: []report.HCA{hca("mlx5_0", "nic", "ib0"), hca("mlx5_1", "nic", "ib1")}},
	}
}

func TestAChecksFunctionsTellWhetherItMissesWhatJobsHave(t *testing.T) {
	const sends, flaps, lists = "it sends by HCAs that jobs use, or take meanwhile", "it counts carriers that interfaces lose when jobs take them", "it lists HCAs"
	for line, want := range map[string]struct{ shared, exclusive string }{
		"check_ib_bw_gdr 380":                               {sends, sends},
		"check_ib_link_flapping":                            {flaps, flaps},
		"check_hw_topology":                                 {"", ""},
		"check_hcas_here 8":                                 {"", "it looks at all HCAs"},
		"check_memory 8":                                    {"", ""},
		"check_hw_cpuinfo 2 96 96":                          {"", ""},
		"check_knowing":                                     {"", ""},
		"check_gresnet_hcas 8":                              {"", ""},
		"check_ib_counters":                                 {"", "its name says that it looks at HCAs, and its function was not found"},
		"check_fabric_of_site":                              {"", ""},
		"check_cmd_status /opt/check-ib":                    {"", lists},
		"check_cmd_output -m '/4X/' 'ibstat'":               {"", "sure: jobs have HCAs"},
		"check_net_ping -I ib0 10.0.0.1":                    {"sure: a job has ib0", "sure: a job has ib0"},
		"check_file_test -d /sys/class/infiniband/mlx5_1":   {"", "sure: a job has mlx5_1"},
		"check_hw_ib 400 mlx5_0:1 # the first":              {"", "sure: a job has mlx5_0"},
		"export X=ib0; check_hw_eth eth0":                   {"", ""},
		"check_fs_free / 3% && check_hw_ib 400":             {"", "sure: jobs have all HCAs"},
		`NCCL_IB_HCA=mlx5_0 check_nccl_allreduce 460.0 1`:   {"", ""},
		"check_ps_service -S sshd":                          {"", ""},
		"check_site --port mlx5_1/1 --speed 400":            {"", "sure: a job has mlx5_1"},
		"check_hw_ib 400 mlx5_9":                            {"", ""},
		"test -e /sys/class/net/ib1/operstate || die 1 'x'": {"sure: a job has ib1", "sure: a job has ib1"},
	} {
		for mode, want := range map[rdma.Mode]string{rdma.Shared: want.shared, rdma.Exclusive: want.exclusive} {
			all := at(mode).NHC(nhc.Files{Scripts: "/etc/nhc/scripts", Host: "n1"}, "* || "+line+"\n")
			got := ""
			for _, m := range all {
				got += strings.Repeat("sure: ", map[bool]int{true: 1}[m.Sure]) + m.Why
			}
			if got != want {
				t.Errorf("%s, in %s mode: %q, wanted %q", line, mode, got, want)
			}
		}
	}
}

func TestAMissHasItsLine(t *testing.T) {
	all := at(rdma.Exclusive).NHC(nhc.Files{Host: "n1"}, "# x\nn2 || check_hw_ib 100\nn1 || check_hw_ib 100; check_hw_eth ib0\n")
	if got := fmt.Sprint(all); got != "[{3 check_hw_ib 100 jobs have all HCAs true} {3 check_hw_eth ib0 a job has ib0 true}]" {
		t.Error(got)
	}
}
