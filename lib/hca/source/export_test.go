package source

// What only the package's own tests reach.
var FindScontrolIn = findScontrol

// ParseResources returns the GRES detail of a node in an answer.
func ParseResources(text, node string) (string, error) {
	has, err := parseResources(text, node)
	return has.gres, err
}

// Detail returns what text says of job 4711's GRES on a node, if it is about that job alone.
func Detail(text, node string) (string, error) {
	s, err := parseShow(text, 4711)
	if err != nil {
		return "", err
	}
	has, err := s.detail(node)
	return has.gres, err
}
