package config

// RDMA is the table [rdma].
type RDMA struct {
	Mode string // the RDMA netns mode, "shared" or "exclusive"; empty: whatever it is
}

func (r *RDMA) read(t table) {
	t.Allow(
		// `""` | `"shared"`, `"exclusive"`: `gresnet boot` sets this mode before slurmd starts;
		// empty: it leaves the mode as it is
		"mode",
	)
	t.Choose("mode", &r.Mode, "", "shared", "exclusive")
}
