package config

// Environment is the table [environment]: what a job's programs are told.
type Environment struct {
	Export []string // of Variables
}

// The variables that can be exported, besides those that begin with GRESNET_.
const (
	NCCLHCA       = "NCCL_IB_HCA"
	NCCLGIDIndex  = "NCCL_IB_GID_INDEX"
	NCCLInterface = "NCCL_SOCKET_IFNAME"
	UCXGIDIndex   = "UCX_IB_GID_INDEX"
	NCCLPKey      = "NCCL_IB_PKEY"
	UCXPKey       = "UCX_IB_PKEY"
	OpenIBPKey    = "OMPI_MCA_btl_openib_pkey"
	UCXDevices    = "UCX_NET_DEVICES"
	GlooInterface = "GLOO_SOCKET_IFNAME"
	TPInterface   = "TP_SOCKET_IFNAME"
	MellanoxNone  = "MELLANOX_VISIBLE_DEVICES"
)

// Variables returns all of them. The SPANK plugin lets no others through (lease.c).
func Variables() []string {
	return []string{
		NCCLHCA, NCCLGIDIndex, NCCLInterface, UCXDevices, UCXGIDIndex, GlooInterface, TPInterface, MellanoxNone, NCCLPKey, UCXPKey, OpenIBPKey,
	}
}

func (e *Environment) read(t table) {
	t.Allow(
		// `[]` | variables that the job's tasks get, out of those below, in this order
		"export",
	)
	if names, there := t.Among("export", Variables()); there && len(names) > 0 {
		e.Export = names
	}
}
