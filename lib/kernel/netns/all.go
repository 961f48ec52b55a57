package netns

import (
	"slices"
)

// All opens every network namespace that can be entered: those that a thread
// is in or has open, and those that a file of some mount namespace stands for.
// One that nothing but a socket keeps alive cannot. With ErrHeldUp it is those that
// the search saw before it was given up.
//
// It looks at every process and is meant for when something is lost.
func All() ([]*NS, error) {
	var all []*NS
	err := search(func(ns *NS, _, _ string) {
		if ns != nil {
			all = append(all, ns)
		}
	})
	return all, err
}

// Others returns the network namespaces besides the process's own that can be
// entered: by device and inode, who has each. With ErrHeldUp it is as All.
func Others() (map[string][]string, error) {
	home, err := Current()
	if err != nil {
		return nil, err
	}
	defer home.Close()
	others := map[string][]string{}
	err = search(func(ns *NS, id, who string) {
		if ns != nil {
			ns.Close()
		}
		if id != home.String() && !slices.Contains(others[id], who) {
			others[id] = append(others[id], who)
		}
	})
	return others, err
}
