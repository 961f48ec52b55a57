package metrics

// The tests read pages, also damaged ones.
var (
	Parse      = parse
	ErrDamaged = errDamaged
)

// Families returns all metrics.
func Families() []Family { return append(counted(), running()...) }

// Families returns the metrics of the page, in their order.
func (p *Page) Families() []Family { return p.families }
