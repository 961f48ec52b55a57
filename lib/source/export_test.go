package source

// What only the package's own tests reach.
var (
	FindScontrol   = findScontrol
	ParseResources = parseResources
)

// Detail is what text says of a job's GRES on a node, if it is about that job alone.
func Detail(text string, id uint32, node string) (string, error) {
	s, err := parseShow(text, id)
	if err != nil {
		return "", err
	}
	return s.detail(node)
}
