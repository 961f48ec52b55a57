package config

// Access is the table [access]: who may open which device nodes.
type Access struct {
	Host string // Closed or Open: the node's own, of HCAs that jobs can have

	// What a job gets besides uverbs, by which all programs use an HCA.
	UMAD bool // management datagrams
	ISSM bool // to be the fabric's subnet manager
}

// Who may open the node's own device nodes of an HCA that no job has.
const (
	Closed = "closed" // root
	Open   = "open"   // whoever udev and the kernel let
)

func (a *Access) read(t table) {
	t.allow("host", "umad", "issm")
	if word, there := t.word("host", Closed, Open); there {
		a.Host = word
	}
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
