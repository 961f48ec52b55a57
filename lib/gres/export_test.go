package gres

// What only the package's own tests reach.
var (
	ParseHostlist  = parseHostlist
	ParseDetail    = parseDetail
	FindScontrol   = findScontrol
	ParseResources = parseResources
)

// Contains is contains.
func (l hostlist) Contains(name string) bool { return l.contains(name) }

// Detail is what text says of a job's GRES on a node, if it is about that job alone.
func Detail(text string, id uint32, node string) (string, error) {
	s, err := parseShow(text, id)
	if err != nil {
		return "", err
	}
	return s.detail(node)
}
