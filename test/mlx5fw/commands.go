package main

import (
	"encoding/binary"
	"log"
)

const (
	maxPages = 1 << 20 // that a guest may lend

	statusOK          = 0x0
	statusInternal    = 0x1
	statusBadOp       = 0x2
	statusBadParam    = 0x3
	statusNoResources = 0xf

	opQueryCaps          = 0x100
	opQueryAdapter       = 0x101
	opInit               = 0x102
	opQueryPages         = 0x107
	opManagePages        = 0x108
	opSetCaps            = 0x109
	opQueryISSI          = 0x10a
	opCreateMkey         = 0x200
	opDestroyMkey        = 0x202
	opQuerySpecial       = 0x203
	opCreateEQ           = 0x301
	opDestroyEQ          = 0x302
	opCreateCQ           = 0x400
	opDestroyCQ          = 0x401
	opCreateQP           = 0x500
	opDestroyQP          = 0x501
	opInit2RTR           = 0x503
	opToError            = 0x507
	opToReset            = 0x50a
	opQueryVportState    = 0x750
	opSetAddress         = 0x761
	opQueryNICVport      = 0x754
	opModifyNICVport     = 0x755
	opQueryHCAVport      = 0x762
	opQueryGID           = 0x764
	opQueryPKey          = 0x765
	opAccessRegister     = 0x805
	opCreateSQ           = 0x904
	opDestroySQ          = 0x906
	opCreateRQ           = 0x908
	opModifyRQ           = 0x909
	opCreateRMP          = 0x90c
	opDestroyRMP         = 0x90e
	opDestroyRQ          = 0x90a
	opCreateFlowGroup    = 0x933
	opDestroyFlowTable   = 0x931
	opDestroyFlowGroup   = 0x934
	opAllocFlowCounter   = 0x939
	opCreateGeneral      = 0xa00
	opCreateUserContext  = 0xa04
	opDestroyUserContext = 0xa06
)

// opcodes names the commands that the firmware knows. One that execute does not treat succeeds with zeros, and
// one that makes an object with a number for it.
var opcodes = map[int]string{
	0x100: "QUERY_HCA_CAP", 0x101: "QUERY_ADAPTER", 0x102: "INIT_HCA", 0x103: "TEARDOWN_HCA", 0x104: "ENABLE_HCA",
	0x105: "DISABLE_HCA", 0x107: "QUERY_PAGES", 0x108: "MANAGE_PAGES", 0x109: "SET_HCA_CAP", 0x10a: "QUERY_ISSI",
	0x10b: "SET_ISSI", 0x10d: "SET_DRIVER_VERSION",
	0x200: "CREATE_MKEY", 0x201: "QUERY_MKEY", 0x202: "DESTROY_MKEY", 0x203: "QUERY_SPECIAL_CONTEXTS",
	0x301: "CREATE_EQ", 0x302: "DESTROY_EQ", 0x303: "QUERY_EQ",
	0x400: "CREATE_CQ", 0x401: "DESTROY_CQ", 0x402: "QUERY_CQ", 0x403: "MODIFY_CQ",
	0x500: "CREATE_QP", 0x501: "DESTROY_QP", 0x502: "RST2INIT_QP", 0x503: "INIT2RTR_QP", 0x504: "RTR2RTS_QP",
	0x505: "RTS2RTS_QP", 0x506: "SQERR2RTS_QP", 0x507: "2ERR_QP", 0x50a: "2RST_QP", 0x50b: "QUERY_QP", 0x50e: "INIT2INIT_QP", 0x50d: "MAD_IFC",
	0x700: "CREATE_SRQ", 0x701: "DESTROY_SRQ", 0x702: "QUERY_SRQ", 0x703: "ARM_RQ", 0x705: "CREATE_XRC_SRQ",
	0x706: "DESTROY_XRC_SRQ", 0x707: "QUERY_XRC_SRQ", 0x708: "ARM_XRC_SRQ",
	0x750: "QUERY_VPORT_STATE", 0x751: "MODIFY_VPORT_STATE", 0x754: "QUERY_NIC_VPORT_CONTEXT", 0x755: "MODIFY_NIC_VPORT_CONTEXT",
	0x760: "QUERY_ROCE_ADDRESS", 0x761: "SET_ROCE_ADDRESS", 0x762: "QUERY_HCA_VPORT_CONTEXT", 0x764: "QUERY_HCA_VPORT_GID",
	0x765: "QUERY_HCA_VPORT_PKEY", 0x76f: "QUERY_VNIC_ENV", 0x770: "QUERY_VPORT_COUNTER", 0x771: "ALLOC_Q_COUNTER",
	0x772: "DEALLOC_Q_COUNTER", 0x773: "QUERY_Q_COUNTER",
	0x800: "ALLOC_PD", 0x801: "DEALLOC_PD", 0x802: "ALLOC_UAR", 0x803: "DEALLOC_UAR", 0x804: "CONFIG_INT_MODERATION",
	0x805: "ACCESS_REG", 0x806: "ATTACH_TO_MCG", 0x807: "DETACH_FROM_MCG", 0x80d: "NOP", 0x80e: "ALLOC_XRCD", 0x80f: "DEALLOC_XRCD",
	0x816: "ALLOC_TRANSPORT_DOMAIN", 0x817: "DEALLOC_TRANSPORT_DOMAIN",
	0x822: "QUERY_CONG_STATUS", 0x823: "MODIFY_CONG_STATUS", 0x824: "QUERY_CONG_PARAMS", 0x825: "MODIFY_CONG_PARAMS", 0x826: "QUERY_CONG_STATISTICS",
	0x829: "SET_L2_TABLE_ENTRY", 0x82b: "DELETE_L2_TABLE_ENTRY", 0x830: "SET_WOL_ROL", 0x840: "CREATE_LAG", 0x841: "MODIFY_LAG", 0x842: "QUERY_LAG", 0x843: "DESTROY_LAG", 0x844: "CREATE_VPORT_LAG", 0x845: "DESTROY_VPORT_LAG", 0x831: "QUERY_WOL_ROL",
	0x900: "CREATE_TIR", 0x901: "MODIFY_TIR", 0x902: "DESTROY_TIR", 0x904: "CREATE_SQ", 0x905: "MODIFY_SQ", 0x906: "DESTROY_SQ",
	0x907: "QUERY_SQ", 0x908: "CREATE_RQ", 0x909: "MODIFY_RQ", 0x90a: "DESTROY_RQ", 0x90b: "QUERY_RQ", 0x90c: "CREATE_RMP", 0x90d: "MODIFY_RMP",
	0x90e: "DESTROY_RMP", 0x912: "CREATE_TIS", 0x913: "MODIFY_TIS", 0x914: "DESTROY_TIS", 0x916: "CREATE_RQT", 0x917: "MODIFY_RQT", 0x918: "DESTROY_RQT",
	0x92f: "SET_FLOW_TABLE_ROOT", 0x930: "CREATE_FLOW_TABLE", 0x931: "DESTROY_FLOW_TABLE", 0x933: "CREATE_FLOW_GROUP", 0x934: "DESTROY_FLOW_GROUP",
	0x936: "SET_FLOW_TABLE_ENTRY", 0x938: "DELETE_FLOW_TABLE_ENTRY", 0x939: "ALLOC_FLOW_COUNTER", 0x93a: "DEALLOC_FLOW_COUNTER", 0x93b: "QUERY_FLOW_COUNTER",
	0x93c: "MODIFY_FLOW_TABLE", 0x940: "ALLOC_MODIFY_HEADER_CONTEXT", 0x941: "DEALLOC_MODIFY_HEADER_CONTEXT",
	0xa00: "CREATE_GENERAL_OBJECT", 0xa03: "DESTROY_GENERAL_OBJECT", 0xa04: "CREATE_UCTX", 0xa06: "DESTROY_UCTX", 0xa08: "CREATE_UMEM", 0xa0a: "DESTROY_UMEM",
}

// An object is one that the firmware does nothing with: its number is 24 bits in the third word of
// what comes out, and of what goes into the command that ends it.
type object struct {
	kind         string
	first, limit uint32
	destroy      int
}

var objects = map[int]object{
	opCreateMkey: {"mkey", 0x100, maxKeys, opDestroyMkey},
	0x700:        {"srq", 1, 1 << 16, 0x701},
	0x705:        {"srq", 1, 1 << 16, 0x706},
	0x771:        {"counters", 1, 255, 0x772},
	0x800:        {"pd", 1, 1 << 16, 0x801},
	0x802:        {"uar", firstUAR, barSize >> 12, 0x803},
	0x80e:        {"xrcd", 1, 1 << 16, 0x80f},
	0x816:        {"domain", 1, 1 << 16, 0x817},
	0x900:        {"tir", 1, 1 << 16, 0x902},
	opCreateRMP:  {"srq", 1, 1 << 16, opDestroyRMP},
	0x912:        {"tis", 1, 1 << 16, 0x914},
	0x916:        {"rqt", 1, 1 << 16, 0x918},
	0x930:        {"table", 1, 1 << 20, opDestroyFlowTable},
	0x933:        {"group", 1, 1 << 20, opDestroyFlowGroup},
	0x939:        {"flow counter", 0x80, 1 << 20, 0x93a},
	0x940:        {"header", 1, 1 << 20, 0x941},
	0xa00:        {"general", 1, 1 << 20, 0xa03},
	0xa04:        {"context", 1, 1 << 15, 0xa06},
	0xa08:        {"umem", 1, 1 << 20, 0xa0a},
}

var destroys = map[int]string{}

func init() {
	for _, o := range objects {
		destroys[o.destroy] = o.kind
	}
}

// execute does a command and returns its status.
func (f *firmware) execute(in, out buffer) int {
	opcode, mod := in.opcode(), in.mod()
	switch opcode {
	case opQueryCaps:
		f.queryCaps(mod>>1, mod&1 == 0, out.part("query_hca_cap_out.capability"))
	case opSetCaps:
		f.changed[mod>>1] = keep(in.part("set_hca_cap_in.capability"))
	case opQueryAdapter:
		p := out.part("query_adapter_out.query_adapter_struct")
		p.set("query_adapter_param_block.ieee_vendor_id", 0x2c9)
		copy(p.part("query_adapter_param_block.vsd_contd_psid"), "MT_0000000359")
	case opQueryPages:
		const boot, inited = 1, 2
		out.set("query_pages_out.num_pages", map[int]uint64{boot: 8, inited: 64}[mod])
	case opManagePages:
		return f.managePages(mod, in, out)
	case opQueryISSI:
		out.set("query_issi_out.supported_issi_dw0", 2) // 1 alone
	case opQuerySpecial:
		out.set("query_special_contexts_out.resd_lkey", 0x100)
		out.set("query_special_contexts_out.null_mkey", 0x200)
		out.set("query_special_contexts_out.dump_fill_mkey", 0x300)
	case opCreateMkey:
		return f.createKey(in, out)
	case opInit2RTR, opToReset, opToError:
		f.modifyQP(opcode, in)
	case opSetAddress:
		f.addresses[int(in.get("set_roce_address_in.roce_address_index"))] = keep(in.part("set_roce_address_in.roce_address"))
	case opCreateEQ:
		return f.createEQ(in, out)
	case opDestroyEQ:
		n := uint32(in.get("destroy_eq_in.eq_number"))
		delete(f.eqs, n)
		delete(f.numbers["eq"], n)
	case opCreateCQ:
		return f.createCQ(in, out)
	case opDestroyCQ:
		delete(f.cqs, in.word(2))
		delete(f.numbers["cq"], in.word(2))
	case opCreateQP:
		return f.createQP(in, out)
	case opCreateSQ:
		return f.createSQ(in, out)
	case opDestroyQP, opDestroySQ:
		delete(f.sqs, in.word(2))
		delete(f.numbers["qp"], in.word(2))
	case opCreateRQ:
		return f.createRQ(in, out)
	case opCreateRMP:
		return f.createRMP(in, out)
	case opModifyRQ:
		if q := f.rqs[uint32(in.get("modify_rq_in.rqn"))]; q != nil {
			q.ready = in.get("modify_rq_in.ctx.state") == 1
		}
	case opDestroyRQ:
		delete(f.rqs, in.word(2))
		delete(f.numbers["rq"], in.word(2))
	case opQueryVportState:
		out.set("query_vport_state_out.admin_state", 2) // follows
		if f.carrier {
			out.set("query_vport_state_out.state", 1)
		}
	case opQueryNICVport:
		copy(out.part("query_nic_vport_context_out.nic_vport_context"), f.vport)
	case opModifyNICVport:
		f.modifyVport(in)
	case opInit:
		if f.infiniband { // its port is up by itself
			f.setPort(true)
		}
	case opQueryHCAVport:
		f.queryPort(out.part("query_hca_vport_context_out.hca_vport_context"))
	case opQueryGID:
		gid := f.gid()
		if in.get("query_hca_vport_gid_in.gid_index") == 0 {
			copy(out.part("query_hca_vport_gid_out.gid"), gid[:])
		}
	case opQueryPKey:
		keys := out.part("query_hca_vport_pkey_out.pkey")
		first := in.get("query_hca_vport_pkey_in.pkey_index")
		if first == 0xffff { // all
			first = 0
		}
		for i := 0; i+4 <= len(keys) && int(first)+i/4 < len(partitions); i += 4 {
			keys[i+2], keys[i+3] = byte(partitions[int(first)+i/4]>>8), byte(partitions[int(first)+i/4])
		}
	case opAccessRegister:
		write := mod == 0
		id, data := int(in.get("access_register_in.register_id")), in.part("access_register_in.register_data")
		return f.register(id, write, data, out.part("access_register_out.register_data"))
	default:
		if opcodes[opcode] == "" {
			f.unknown("command %#x", opcode)
			return statusBadOp
		}
		if o, ok := objects[opcode]; ok {
			n := f.number(o.kind, o.first, o.limit)
			if n == 0 {
				return statusNoResources
			}
			out.setWord(2, n)
		} else if kind, ok := destroys[opcode]; ok {
			n := in.word(2) & 0xffffff
			switch opcode {
			case opDestroyFlowTable:
				n = uint32(in.get("destroy_flow_table_in.table_id"))
			case opDestroyFlowGroup:
				n = uint32(in.get("destroy_flow_group_in.group_id"))
			}
			if !f.numbers[kind][n] {
				log.Printf("%s: %s: no %s %d", f.name, opcodes[opcode], kind, n)
				return statusBadParam
			}
			delete(f.numbers[kind], n)
			switch opcode {
			case opDestroyMkey:
				delete(f.keys, n)
			case opDestroyRMP:
				delete(f.srqs, n)
			}
		}
	}
	return statusOK
}

// keep copies what a driver has set, and no more than any structure has.
func keep(b buffer) buffer { return append(buffer{}, b[:min(len(b), 4096)]...) }

// managePages takes pages of the guest, and gives them back when it wants them.
func (f *firmware) managePages(mod int, in, out buffer) int {
	const give, take = 1, 2
	pages := in.part("manage_pages_in.pas")
	n := int(in.get("manage_pages_in.input_num_entries"))
	switch mod {
	case give:
		if len(pages) < 8*n || len(f.pages)+n > maxPages {
			return statusBadParam
		}
		for i := range n {
			f.pages = append(f.pages, binary.BigEndian.Uint64(pages[8*i:]))
		}
	case take:
		back := out.part("manage_pages_out.pas")
		n = min(n, len(f.pages), len(back)/8)
		for i, page := range f.pages[:n] {
			binary.BigEndian.PutUint64(back[8*i:], page)
		}
		f.pages = f.pages[n:]
		out.set("manage_pages_out.output_num_entries", uint64(n))
	}
	return statusOK
}

// modifyVport keeps what a driver sets of its virtual port.
func (f *firmware) modifyVport(in buffer) {
	c := in.part("modify_nic_vport_context_in.nic_vport_context")
	for selected, names := range map[string][]string{
		"modify_nic_vport_context_in.field_select.roce_en":             {"nic_vport_context.roce_en"},
		"modify_nic_vport_context_in.field_select.mtu":                 {"nic_vport_context.mtu"},
		"modify_nic_vport_context_in.field_select.node_guid":           {"nic_vport_context.node_guid"},
		"modify_nic_vport_context_in.field_select.disable_uc_local_lb": {"nic_vport_context.disable_uc_local_lb"},
		"modify_nic_vport_context_in.field_select.disable_mc_local_lb": {"nic_vport_context.disable_mc_local_lb"},
		"modify_nic_vport_context_in.field_select.promisc":             {"nic_vport_context.promisc_uc", "nic_vport_context.promisc_mc", "nic_vport_context.promisc_all"},
		"modify_nic_vport_context_in.field_select.permanent_address":   {"nic_vport_context.permanent_address.mac_addr_47_32", "nic_vport_context.permanent_address.mac_addr_31_0"},
	} {
		if in.get(selected) == 0 {
			continue
		}
		for _, name := range names {
			f.vport.set(name, c.get(name))
		}
	}
}
