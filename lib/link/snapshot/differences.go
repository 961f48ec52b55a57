package snapshot

import "fmt"

// Differences names what of the settings the interface does not have, and
// what it has beyond them; nothing is equality.
func (c *Conn) Differences(index int, want Settings) ([]string, error) {
	want, err := c.located(want.aged().lessDaemons())
	if err != nil {
		return nil, err
	}
	have, err := c.snapshot(index, !want.borrowed())
	if err != nil {
		return nil, err
	}
	return c.differences(comparing{index, have.lessDaemons(), want})
}

// differ says that something is not as it was, unless it is.
func differ(what string, have, want any) []string {
	if have == want {
		return nil
	}
	return []string{fmt.Sprintf("%s is %v, was %v", what, have, want)}
}
