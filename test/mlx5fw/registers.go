package main

import (
	"fmt"
	"log"
	"maps"
	"slices"
)

const (
	regQETC = 0x4005
	regQTCT = 0x400a
	regQCAM = 0x4019
	regPMLP = 0x5002
	regPMTU = 0x5003
	regPTYS = 0x5004
	regPAOS = 0x5006
	regPVLC = 0x500f
	regPCAM = 0x507f
	regMCQS = 0x9060
	regMCQI = 0x9061
	regMCAM = 0x907f
)

// registers names those that the firmware knows. What a driver writes to one that register does not treat is kept,
// and is what it reads; at first that is zeros.
var registers = map[int]string{
	0x4002: "QPTS", regQETC: "QETC", regQTCT: "QTCT", 0x4013: "QPDPM", regQCAM: "QCAM", 0x4020: "DCBX_PARAM",
	regPMLP: "PMLP", regPMTU: "PMTU", regPTYS: "PTYS", regPAOS: "PAOS", 0x5007: "PFCC", 0x5008: "PPCNT", 0x500b: "PPTB", 0x500c: "PBMC",
	regPVLC: "PVLC", regPCAM: "PCAM", 0x6001: "NODE_DESC", 0x7004: "HOST_ENDIANNESS",
	regMCQS: "MCQS", regMCQI: "MCQI", regMCAM: "MCAM",
}

// register reads or writes one of the port's or the device's registers.
func (f *firmware) register(id int, write bool, in, out buffer) int {
	key := fmt.Sprintf("%#x", id)
	if id == regQTCT { // one for each priority
		key += fmt.Sprintf("/%d", in.get("qtct_reg.prio"))
	}
	kept := f.registers[key]
	if kept == nil {
		kept = make(buffer, len(in))
	}
	if write && id == regQETC {
		in = mergeETS(kept, in)
	}
	if registers[id] == "" {
		f.unknown("register %#x", id)
	}
	if write {
		f.registers[key] = keep(in)
		copy(out, in)
	} else {
		copy(out, kept)
		if len(in) >= 4 && len(out) >= 4 {
			out.setWord(0, in.word(0)) // which port, and which part
		}
	}
	switch id {
	case regPAOS:
		const up, down = 1, 2
		if write {
			f.setPort(in.get("paos_reg.admin_status") == up)
		}
		out.set("paos_reg.local_port", 1)
		out.set("paos_reg.admin_status", map[bool]uint64{true: up, false: down}[f.up])
		out.set("paos_reg.oper_status", map[bool]uint64{true: up, false: down}[f.carrier])
	case regPTYS:
		if f.infiniband {
			const ib, width4, edr = 1, 4, 32
			out.set("ptys_reg.proto_mask", ib)
			out.set("ptys_reg.ib_link_width_capability", width4|1)
			out.set("ptys_reg.ib_proto_capability", edr|1)
			out.set("ptys_reg.ib_link_width_oper", width4)
			out.set("ptys_reg.ib_proto_oper", edr)
			return statusOK
		}
		const ethernet, rates = 4, 1<<20 | 1<<22 | 1<<23
		out.set("ptys_reg.local_port", 1)
		out.set("ptys_reg.proto_mask", ethernet)
		out.set("ptys_reg.an_disable_cap", 1)
		out.set("ptys_reg.eth_proto_capability", rates)
		if out.get("ptys_reg.eth_proto_admin") == 0 {
			out.set("ptys_reg.eth_proto_admin", rates)
		}
		out.set("ptys_reg.an_status", 1)
		out.set("ptys_reg.connector_type", 5) // a copper cable
		if f.carrier {
			out.set("ptys_reg.eth_proto_oper", 1<<20) // 100GBASE-CR4
			out.set("ptys_reg.eth_proto_lp_advertise", rates)
		}
	case regPVLC:
		out.set("pvlc_reg.vl_hw_cap", 4) // eight
		out.set("pvlc_reg.vl_operational", 4)
	case regPMTU:
		if f.infiniband {
			out.set("pmtu_reg.max_mtu", 4096)
			out.set("pmtu_reg.admin_mtu", 4096)
			out.set("pmtu_reg.oper_mtu", 4096)
			return statusOK
		}
		out.set("pmtu_reg.max_mtu", 10218)
		if out.get("pmtu_reg.admin_mtu") == 0 {
			out.set("pmtu_reg.admin_mtu", 1522)
		}
		out.set("pmtu_reg.oper_mtu", out.get("pmtu_reg.admin_mtu"))
	case regPMLP:
		out.set("pmlp_reg.local_port", 1)
		out.set("pmlp_reg.width", 4)
	case regPCAM:
		out.set("pcam_reg.port_access_reg_cap_mask.regs_5000_to_507f.pptb", 1)
		out.set("pcam_reg.port_access_reg_cap_mask.regs_5000_to_507f.pbmc", 1)
		out.set("pcam_reg.port_access_reg_cap_mask.regs_5000_to_507f.ppcnt", 1)
		out.set("pcam_reg.feature_cap_mask.enhanced_features.ptys_connector_type", 1)
		out.set("pcam_reg.feature_cap_mask.enhanced_features.ppcnt_statistical_group", 1)
		out.set("pcam_reg.feature_cap_mask.enhanced_features.rx_buffer_fullness_counters", 1)
	case regQCAM:
		out.setWord(5, 1<<19|1<<2) // QPDPM and QPTS
		out.setWord(13, 1)         // trusts both
	case regMCAM:
		if in.get("mcam_reg.access_reg_group") == 0 {
			out.set("mcam_reg.mng_access_reg_cap_mask.access_regs.mcqs", 1)
			out.set("mcam_reg.mng_access_reg_cap_mask.access_regs.mcqi", 1)
		}
	case regMCQS:
		out.set("mcqs_reg.last_index_flag", 1)
		out.set("mcqs_reg.identifier", 1) // the boot image
	case regMCQI:
		copy(out, in)
		out.part("mcqi_reg.data").set("mcqi_version.version", firmwareMajor<<24|firmwareMinor<<16|firmwareSub)
	}
	return statusOK
}

// show logs the registers that the driver has written, and the queue pairs that it has connected.
func (f *firmware) show() {
	for _, n := range slices.Sorted(maps.Keys(f.sqs)) {
		if p := f.sqs[n].pair; p != nil && p.ready {
			log.Printf("%s: queue pair %d is connected with %d", f.name, n, p.remote)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.registers)) {
		var id int
		fmt.Sscanf(key, "%v", &id)
		log.Printf("%s: register %s %s %x", f.name, key, registers[id], f.registers[key])
	}
}

// mergeETS changes what a write of QETC says that it changes of each traffic class: its group,
// its share or its rate.
func mergeETS(kept, in buffer) buffer {
	out := append(buffer{}, kept...)
	for class := range 8 {
		was, is := out[8+8*class:], in[8+8*class:]
		for _, part := range [][2]string{
			{"ets_tcn_config_reg.g", "ets_tcn_config_reg.group"},
			{"ets_tcn_config_reg.b", "ets_tcn_config_reg.bw_allocation"},
			{"ets_tcn_config_reg.r", "ets_tcn_config_reg.max_bw_value"},
			{"ets_tcn_config_reg.r", "ets_tcn_config_reg.max_bw_units"},
		} {
			if is.get(part[0]) != 0 {
				was.set(part[1], is.get(part[1]))
			}
		}
	}
	return out
}
