package config

// Access is the table [access]: which device nodes of its HCAs a job gets
// besides uverbs, by which all programs use them.
type Access struct {
	UMAD bool // management datagrams
	ISSM bool // to be the fabric's subnet manager
}

func (a *Access) read(t table) {
	t.allow("umad", "issm")
	a.UMAD, _ = value[bool](t, "umad", "true or false")
	a.ISSM, _ = value[bool](t, "issm", "true or false")
}

// Kinds are the kinds of device nodes that a job gets, as the kernel names them.
func (a Access) Kinds() []string {
	kinds := []string{"uverbs"}
	if a.UMAD {
		kinds = append(kinds, "umad")
	}
	if a.ISSM {
		kinds = append(kinds, "issm")
	}
	return kinds
}
