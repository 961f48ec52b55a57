package part

// shared is a slot without an interface.
type shared struct{ Whole }

// Read reads nothing.
func (shared) Read(r *Reading) error { return inSharedMode(r) }
