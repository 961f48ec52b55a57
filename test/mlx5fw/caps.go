package main

// Types of capabilities, as QUERY_HCA_CAP's op_mod has them above its lowest bit.
const (
	capGeneral   = 0
	capEthernet  = 1
	capAtomic    = 3
	capRoCE      = 4
	capIPoIB     = 6
	capFlowTable = 7
)

type values map[string]uint64

// queryCaps fills in what a function can do: at most, or as the driver has set it.
func (f *firmware) queryCaps(kind int, most bool, out buffer) {
	for name, v := range f.caps(kind) {
		out.set(name, v)
	}
	changed := f.changed[kind]
	switch {
	case changed == nil || most:
	case kind == capAtomic: // the driver sets this alone, and leaves the rest 0
		const mode = "atomic_caps.atomic_req_8B_endianness_mode"
		out.set(mode, changed.get(mode))
	default:
		copy(out, changed)
	}
}

func (f *firmware) caps(kind int) values {
	switch kind {
	case capGeneral:
		return f.general()
	case capIPoIB:
		return values{
			"per_protocol_networking_offload_caps.csum_cap":              1,
			"per_protocol_networking_offload_caps.max_lso_cap":           18,
			"per_protocol_networking_offload_caps.rss_ind_tbl_cap":       8,
			"per_protocol_networking_offload_caps.self_lb_en_modifiable": 1,
		}
	case capEthernet:
		return values{
			"per_protocol_networking_offload_caps.csum_cap":              1,
			"per_protocol_networking_offload_caps.vlan_cap":              1,
			"per_protocol_networking_offload_caps.max_lso_cap":           18,
			"per_protocol_networking_offload_caps.rss_ind_tbl_cap":       8,
			"per_protocol_networking_offload_caps.self_lb_en_modifiable": 1,
			"per_protocol_networking_offload_caps.wqe_inline_mode":       2, // none is required
			"per_protocol_networking_offload_caps.wqe_vlan_insert":       1,
		}
	case capAtomic:
		return values{
			"atomic_caps.supported_atomic_req_8B_endianness_mode_1": 1,
			"atomic_caps.atomic_operations":                         3, // compare and swap, fetch and add
			"atomic_caps.atomic_size_qp":                            8, // bytes
		}
	case capRoCE:
		return values{
			"roce_cap.l3_type":                 6, // IPv4 and IPv6
			"roce_cap.roce_version":            5, // 1 and 2
			"roce_cap.r_roce_dest_udp_port":    4791,
			"roce_cap.r_roce_min_src_udp_port": 0xc000,
			"roce_cap.r_roce_max_src_udp_port": 0xffff,
			"roce_cap.roce_address_table_size": 255,
		}
	case capFlowTable:
		return values{
			"flow_table_nic_cap.flow_table_properties_nic_receive.ft_support":                 1,
			"flow_table_nic_cap.flow_table_properties_nic_receive.flow_modify_en":             1,
			"flow_table_nic_cap.flow_table_properties_nic_receive.modify_root":                1,
			"flow_table_nic_cap.flow_table_properties_nic_receive.identified_miss_table_mode": 1,
			"flow_table_nic_cap.flow_table_properties_nic_receive.flow_table_modify":          1,
			"flow_table_nic_cap.flow_table_properties_nic_receive.log_max_ft_size":            24,
			"flow_table_nic_cap.flow_table_properties_nic_receive.max_ft_level":               64,
			"flow_table_nic_cap.flow_table_properties_nic_receive.log_max_ft_num":             24,
			"flow_table_nic_cap.flow_table_properties_nic_receive.log_max_flow":               24,
			"flow_table_nic_cap.flow_table_properties_nic_receive.log_max_destination":        8,
			"flow_table_nic_cap.nic_rx_multi_path_tirs":                                       1,
		}
	}
	return nil
}

func (f *firmware) general() values {
	v := values{
		// what it is
		"cmd_hca_cap.port_type":                       1, // Ethernet
		"cmd_hca_cap.num_ports":                       1,
		"cmd_hca_cap.vhca_id":                         uint64(f.index),
		"cmd_hca_cap.eth_net_offloads":                1,
		"cmd_hca_cap.nic_flow_table":                  1,
		"cmd_hca_cap.roce":                            1,
		"cmd_hca_cap.cq_moderation":                   1,
		"cmd_hca_cap.rc":                              1,
		"cmd_hca_cap.uc":                              1,
		"cmd_hca_cap.ud":                              1,
		"cmd_hca_cap.xrc":                             1,
		"cmd_hca_cap.atomic":                          1, // RDMA-CM gives each QP the right to
		"cmd_hca_cap.cqe_version":                     1,
		"cmd_hca_cap.compact_address_vector":          1,
		"cmd_hca_cap.umr_modify_entity_size_disabled": 1, // no cache of memory keys, which would be made at once
		"cmd_hca_cap.disable_local_lb_uc":             1,
		"cmd_hca_cap.disable_local_lb_mc":             1,
		"cmd_hca_cap.mcam_reg":                        1,
		"cmd_hca_cap.pcam_reg":                        1,
		"cmd_hca_cap.qcam_reg":                        1,
		"cmd_hca_cap.qos":                             1, // with these two the driver has DCB
		"cmd_hca_cap.vport_group_manager":             1,
		"cmd_hca_cap.ets":                             1,
		"cmd_hca_cap.dcbx":                            1,
		"cmd_hca_cap.max_tc":                          8,
		"cmd_hca_cap.vport_counters":                  1,
		"cmd_hca_cap.max_qp_cnt":                      254,
		"cmd_hca_cap.out_of_seq_cnt":                  1,
		"cmd_hca_cap.retransmission_q_counters":       1,
		"cmd_hca_cap.gid_table_size":                  4, // 128
		"cmd_hca_cap.pkey_table_size":                 0, // 128
		"cmd_hca_cap.local_ca_ack_delay":              16,
		// its UARs
		"cmd_hca_cap.uar_sz":               5, // 32 MiB
		"cmd_hca_cap.num_of_uars_per_page": 1,
		"cmd_hca_cap.log_bf_reg_size":      9,
		"cmd_hca_cap.log_pg_sz":            12,
		"cmd_hca_cap.device_frequency_mhz": 1000,
		"cmd_hca_cap.device_frequency_khz": 1000000,
		// how many there may be, and how large
		"cmd_hca_cap.max_num_eqs":              64,
		"cmd_hca_cap.log_max_eq":               6,
		"cmd_hca_cap.log_max_eq_sz":            22,
		"cmd_hca_cap.log_max_cq":               16,
		"cmd_hca_cap.log_max_cq_sz":            22,
		"cmd_hca_cap.log_max_qp":               16,
		"cmd_hca_cap.log_max_qp_sz":            15,
		"cmd_hca_cap.log_max_srq":              16,
		"cmd_hca_cap.log_max_srq_sz":           15,
		"cmd_hca_cap.log_max_mkey":             logMaxKeys,
		"cmd_hca_cap.log_max_mrw_sz":           64,
		"cmd_hca_cap.log_max_klm_list_size":    16,
		"cmd_hca_cap.max_indirection":          4,
		"cmd_hca_cap.log_max_ra_req_qp":        4,
		"cmd_hca_cap.log_max_ra_res_qp":        4,
		"cmd_hca_cap.log_max_msg":              logMaxMessage,
		"cmd_hca_cap.max_wqe_sz_sq":            1024,
		"cmd_hca_cap.max_wqe_sz_rq":            512,
		"cmd_hca_cap.max_qp_mcg":               240,
		"cmd_hca_cap.log_max_mcg":              16,
		"cmd_hca_cap.log_max_transport_domain": 16,
		"cmd_hca_cap.log_max_pd":               16,
		"cmd_hca_cap.log_max_xrcd":             16,
		"cmd_hca_cap.log_max_rq":               16,
		"cmd_hca_cap.log_max_sq":               16,
		"cmd_hca_cap.log_max_tir":              16,
		"cmd_hca_cap.log_max_tis":              16,
		"cmd_hca_cap.log_max_tis_per_sq":       1,
		"cmd_hca_cap.log_max_rqt":              16,
		"cmd_hca_cap.log_max_rqt_size":         11,
		"cmd_hca_cap.basic_cyclic_rcv_wqe":     1,
		"cmd_hca_cap.log_max_stride_sz_rq":     14,
		"cmd_hca_cap.log_min_stride_sz_rq":     4,
		"cmd_hca_cap.log_max_stride_sz_sq":     6,
		"cmd_hca_cap.log_min_stride_sz_sq":     6,
		"cmd_hca_cap.log_max_wq_sz":            18,
		"cmd_hca_cap.log_max_vlan_list":        12,
		"cmd_hca_cap.log_max_current_mc_list":  14,
		"cmd_hca_cap.log_max_current_uc_list":  7,
	}
	if f.sibling {
		v["cmd_hca_cap.lag_master"], v["cmd_hca_cap.num_lag_ports"] = 1, 2
	}
	if f.infiniband {
		for name, n := range (values{
			"cmd_hca_cap.port_type":               0,
			"cmd_hca_cap.ib_virt":                 1, // ports are asked for by commands, not by MADs
			"cmd_hca_cap.roce":                    0,
			"cmd_hca_cap.ipoib_basic_offloads":    1,
			"cmd_hca_cap.ipoib_enhanced_offloads": 1,
			"cmd_hca_cap.vport_group_manager":     0,
		}) {
			v[name] = n
		}
	}
	return v
}
