package environment

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/config"
)

func ib(name, interfaceName string) hca {
	return hca{Name: name, NUMA: -1, GPU: -1, Ports: []port{
		{Num: 1, Active: true, Interface: portInterface{Name: interfaceName, Ready: interfaceName != ""}},
	}}
}

// roce returns an HCA whose GID table has "INDEX ADDRESS" for RoCE v2.
func roce(name string, gids ...string) hca {
	p := port{Num: 1, Active: true, RoCE: true}
	for _, text := range gids {
		var g gid
		var addr string
		fmt.Sscan(text, &g.Index, &addr)
		g.Addr = netip.MustParseAddr(addr)
		p.GIDs = append(p.GIDs, g)
	}
	return hca{Name: name, NUMA: -1, GPU: -1, Ports: []port{p}}
}

// dual has a second port.
func dual(h hca, active bool) hca {
	h.Ports = append(h.Ports, port{Num: 2, Active: active, RoCE: h.Ports[0].RoCE})
	return h
}

func allDown(h hca) hca {
	h.Ports = slices.Clone(h.Ports)
	for i := range h.Ports {
		h.Ports[i].Active = false
	}
	return h
}

func unready(h hca) hca {
	h.Ports = slices.Clone(h.Ports)
	h.Ports[0].Interface.Ready = false
	return h
}

func at(h hca, numa, gpu int) hca {
	h.NUMA, h.GPU = numa, gpu
	return h
}

// TestOf has what a job gets to know; a variable that is not listed is not there.
func TestOf(t *testing.T) {
	all := config.Variables()
	for _, c := range []struct {
		name   string
		hcas   []hca
		export []string
		want   []string
	}{
		{"nothing is exported that the site does not name", []hca{ib("mlx5_3", "ibs3")}, nil, []string{
			"GRESNET_HCAS=mlx5_3", "GRESNET_PORTS=mlx5_3:1", "GRESNET_INTERFACES=ibs3", "GRESNET_NUMA=-1",
		}},
		{"two HCAs, everything", []hca{at(ib("mlx5_3", "ibs3"), 0, 2), at(ib("mlx5_7", "ibs7"), 1, -1)}, all, []string{
			"GRESNET_HCAS=mlx5_3,mlx5_7", "GRESNET_PORTS=mlx5_3:1,mlx5_7:1", "GRESNET_INTERFACES=ibs3,ibs7", "GRESNET_NUMA=0,1", "GRESNET_GPUS=2,-1",
			"NCCL_IB_HCA==mlx5_3:1,mlx5_7:1", "NCCL_SOCKET_IFNAME==ibs3,ibs7", "UCX_NET_DEVICES=mlx5_3:1,mlx5_7:1",
			"GLOO_SOCKET_IFNAME=ibs3", "TP_SOCKET_IFNAME=ibs3", "MELLANOX_VISIBLE_DEVICES=none",
		}},
		{"the site's order", []hca{ib("mlx5_3", "")}, []string{config.UCXDevices, config.NCCLHCA}, []string{
			"GRESNET_HCAS=mlx5_3", "GRESNET_PORTS=mlx5_3:1", "GRESNET_INTERFACES=", "GRESNET_NUMA=-1",
			"UCX_NET_DEVICES=mlx5_3:1", "NCCL_IB_HCA==mlx5_3:1",
		}},
		{"no interface in the job", []hca{ib("mlx5_3", "")}, all, []string{
			"GRESNET_HCAS=mlx5_3", "GRESNET_PORTS=mlx5_3:1", "GRESNET_INTERFACES=", "GRESNET_NUMA=-1",
			"NCCL_IB_HCA==mlx5_3:1", "UCX_NET_DEVICES=mlx5_3:1", "MELLANOX_VISIBLE_DEVICES=none",
		}},
		{"the first interface has no address", []hca{unready(ib("mlx5_3", "ibs3")), ib("mlx5_7", "ibs7")},
			[]string{config.NCCLInterface, config.GlooInterface, config.TPInterface}, []string{
				"GRESNET_HCAS=mlx5_3,mlx5_7", "GRESNET_PORTS=mlx5_3:1,mlx5_7:1", "GRESNET_INTERFACES=ibs3,ibs7", "GRESNET_NUMA=-1,-1",
				"NCCL_SOCKET_IFNAME==ibs7", "GLOO_SOCKET_IFNAME=ibs7", "TP_SOCKET_IFNAME=ibs7",
			}},
		{"no interface has an address", []hca{unready(ib("mlx5_3", "ibs3"))},
			[]string{config.NCCLInterface, config.GlooInterface, config.TPInterface}, []string{
				"GRESNET_HCAS=mlx5_3", "GRESNET_PORTS=mlx5_3:1", "GRESNET_INTERFACES=ibs3", "GRESNET_NUMA=-1",
			}},
		{"the second port is down", []hca{dual(ib("mlx5_3", ""), false)}, []string{config.NCCLHCA}, []string{
			"GRESNET_HCAS=mlx5_3", "GRESNET_PORTS=mlx5_3:1", "GRESNET_INTERFACES=", "GRESNET_NUMA=-1", "NCCL_IB_HCA==mlx5_3:1",
		}},
		{"both ports are up", []hca{dual(ib("mlx5_3", ""), true)}, []string{config.UCXDevices}, []string{
			"GRESNET_HCAS=mlx5_3", "GRESNET_PORTS=mlx5_3:1,mlx5_3:2", "GRESNET_INTERFACES=", "GRESNET_NUMA=-1", "UCX_NET_DEVICES=mlx5_3:1,mlx5_3:2",
		}},
		{"both ports are down", []hca{allDown(dual(ib("mlx5_3", ""), false))}, nil, []string{
			"GRESNET_HCAS=mlx5_3", "GRESNET_PORTS=mlx5_3:1,mlx5_3:2", "GRESNET_INTERFACES=", "GRESNET_NUMA=-1",
		}},
		{"an HCA without ports", []hca{{Name: "bare_0", NUMA: 1, GPU: -1}}, []string{config.NCCLHCA, config.UCXDevices, config.NCCLGIDIndex}, []string{
			"GRESNET_HCAS=bare_0", "GRESNET_PORTS=", "GRESNET_INTERFACES=", "GRESNET_NUMA=1",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, v := range variablesOf(c.hcas, c.export) {
				got = append(got, v.Name+"="+v.Value)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestOneGIDIndexIsExportedIfItServesAllRoCEPorts(t *testing.T) {
	const v4a, v4b, v6a, v6b, locala, localb = "::ffff:10.0.0.1", "::ffff:10.0.0.2", "fd00::1", "fd00::2", "fe80::1", "fe80::2"
	for _, c := range []struct {
		name string
		hcas []hca
		want string // empty: it is not there
	}{
		{"one HCA", []hca{roce("a", "1 "+locala, "3 "+v4a, "5 "+v6a)}, "3"},
		{"IPv4 before a lower IPv6", []hca{roce("a", "1 "+locala, "3 "+v6a, "5 "+v4a)}, "5"},
		{"two HCAs with one index", []hca{roce("a", "1 "+locala, "3 "+v4a), roce("b", "1 "+localb, "3 "+v4b)}, "3"},
		{"the second index serves both", []hca{roce("a", "3 "+v4a, "5 "+v4b), roce("b", "5 "+v4b)}, "5"},
		{"IPv4 nowhere the same, IPv6 is", []hca{roce("a", "3 "+v4a, "5 "+v6a), roce("b", "5 "+v6b, "7 "+v4b)}, "5"},
		{"one index, two kinds", []hca{roce("a", "3 "+v4a), roce("b", "3 "+v6b)}, ""},
		{"link-local, if that is all", []hca{roce("a", "1 "+locala), roce("b", "1 "+localb)}, "1"},
		{"no index the same", []hca{roce("a", "3 "+v4a), roce("b", "4 "+v4b)}, ""},
		{"one without a GID", []hca{roce("a", "3 "+v4a), roce("b")}, ""},
		{"InfiniBand has no part in it", []hca{ib("a", "ib0"), roce("b", "3 "+v4b)}, "3"},
		{"InfiniBand alone", []hca{ib("a", "ib0")}, ""},
		{"a port that is down has no part in it", []hca{dual(roce("a", "3 "+v4a), false)}, "3"},
		{"a second port that is up and has no GID", []hca{dual(roce("a", "3 "+v4a), true)}, ""},
		{"no HCA", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for _, v := range variablesOf(c.hcas, []string{config.NCCLGIDIndex}) {
				if v.Name == config.NCCLGIDIndex {
					got = v.Value
				}
			}
			if got != c.want {
				t.Errorf("the index is %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheMellanoxHookIsSwitchedOffWhereItIsOn(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"on": 0o755, "off": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	site := []string{config.NCCLHCA, config.UCXDevices}
	for _, c := range []struct {
		hook   string
		export []string
		want   []string
	}{
		{"none", site, site},
		{"off", site, site},
		{"on", site, []string{config.NCCLHCA, config.UCXDevices, config.MellanoxNone}},
		{"on", nil, []string{config.MellanoxNone}},
		{"on", []string{config.MellanoxNone, config.NCCLHCA}, []string{config.MellanoxNone, config.NCCLHCA}},
	} {
		if got := withoutHook(c.export, filepath.Join(dir, c.hook)); !slices.Equal(got, c.want) {
			t.Errorf("hook %s, export %q: got %q, want %q", c.hook, c.export, got, c.want)
		}
	}
}

func TestAJobWithTwoSlotsOfOneHCAHasItOnceAndBothInterfaces(t *testing.T) {
	first, second := roce("mlx5_0", "5 ::ffff:10.64.0.16"), roce("mlx5_0", "9 ::ffff:10.64.0.17")
	first.Slot, second.Slot = true, true
	first.Ports[0].Interface.Name, second.Ports[0].Interface.Name = "eth2", "eth2_1"
	values := map[string]string{}
	for _, v := range variablesOf([]hca{first, second}, []string{"UCX_NET_DEVICES", "NCCL_IB_HCA", "UCX_IB_GID_INDEX"}) {
		values[v.Name] = v.Value
	}
	for name, want := range map[string]string{
		"GRESNET_HCAS": "mlx5_0", "GRESNET_PORTS": "mlx5_0:1", "UCX_NET_DEVICES": "mlx5_0:1", "NCCL_IB_HCA": "=mlx5_0:1",
		"GRESNET_INTERFACES": "eth2,eth2_1", "UCX_IB_GID_INDEX": "5",
	} {
		if values[name] != want {
			t.Errorf("%s is %q, want %q", name, values[name], want)
		}
	}
}
