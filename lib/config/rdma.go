package config

// RDMA is the table [rdma].
type RDMA struct {
	Mode string // the RDMA netns mode, "shared" or "exclusive"; empty: whatever it is
}

func (r *RDMA) read(t table) {
	t.allow("mode")
	if word, there := t.word("mode", "", "shared", "exclusive"); there {
		r.Mode = word
	}
}
