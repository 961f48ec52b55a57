package link

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// Driver is what a driver keeps for an interface as long as there is one. A move leaves
// it alone; an interface that is made anew has the driver's defaults.
type Driver struct {
	Features []string           `json:"features,omitempty"` // that were asked for, sorted; not all can be had
	Ethtool  map[string]Message `json:"ethtool,omitempty"`  // attributes, by what they are of
	Files    map[string]string  `json:"files,omitempty"`    // of its queues, below /sys/class/net/NAME; home only
}

// Remade completes the settings of an interface that is about to be made anew by what
// its driver has kept until then. It says why a P_Key child, which is made anew, too,
// could not be as it is, if it could not: while its RDMA device stays, so does the child.
func (c *Conn) Remade(index int, s *Settings) (err error) {
	if s.Driver, err = c.driver(index, s.Name); err != nil {
		return err
	}
	if s.Driver.Files, err = queueFiles(s.Name); err != nil {
		return err
	}
	for k := range s.Children {
		child := &s.Children[k]
		if !child.ID.isPKeyChild() {
			continue
		}
		i, err := c.look(child.Index)
		if err != nil {
			return err
		}
		if err := c.refuse(i, child.Settings); err != nil {
			return err
		}
		if err := c.Remade(child.Index, &child.Settings); err != nil {
			return err
		}
	}
	return nil
}

// driver reads what ethtool tells.
func (c *Conn) driver(index int, name string) (*Driver, error) {
	d := &Driver{Ethtool: map[string]Message{}}
	var err error
	if d.Features, err = c.features(index); err != nil {
		return nil, fmt.Errorf("read the features of %s: %w", name, err)
	}
	for what, kind := range ethtoolKinds() {
		m, err := c.ethtool(kind.get, index, 0, nil)
		if err != nil {
			return nil, fmt.Errorf("read the %s of %s: %w", what, name, err)
		}
		if m != nil {
			d.Ethtool[what] = m
		}
	}
	return d, nil
}

// applyDriver sets what ethtool does not tell as it was.
func (c *Conn) applyDriver(index int, want Settings) error {
	if want.Driver == nil {
		return nil
	}
	have, err := c.driver(index, want.Name)
	if err != nil {
		return err
	}
	if toggle := toggled(have.Features, want.Driver.Features); toggle != nil {
		if _, e := c.ethtool(unix.ETHTOOL_MSG_FEATURES_SET, index, unix.NLM_F_ACK, toggle); e != nil {
			err = also(err, fmt.Errorf("set the features of %s: %w", want.Name, e))
		}
	}
	for what, kind := range ethtoolKinds() {
		body := changed(have.Ethtool[what], want.Driver.Ethtool[what])
		if body == nil {
			continue
		}
		if _, e := c.ethtool(kind.set, index, unix.NLM_F_ACK, body); e != nil {
			err = also(err, fmt.Errorf("set the %s of %s: %w", what, want.Name, e))
		}
	}
	return err
}

// driverDifferences names what of an interface that was made anew is not as it was.
func (c *Conn) driverDifferences(index int, name string, want *Driver) (diff []string, err error) {
	if want == nil {
		return nil, nil
	}
	have, err := c.driver(index, name)
	if err != nil {
		return nil, err
	}
	if have.Files, err = queueFiles(name); err != nil {
		return nil, err
	}
	for _, f := range lacking(want.Features, have.Features) {
		diff = append(diff, fmt.Sprintf("feature %s is off, was on", f))
	}
	for _, f := range lacking(have.Features, want.Features) {
		diff = append(diff, fmt.Sprintf("feature %s is on, was off", f))
	}
	for _, what := range slices.Sorted(maps.Keys(want.Ethtool)) {
		if changed(have.Ethtool[what], want.Ethtool[what]) != nil {
			diff = append(diff, what+" are not what they were")
		}
	}
	for _, file := range slices.Sorted(maps.Keys(want.Files)) {
		if was, is := want.Files[file], have.Files[file]; was != is {
			diff = append(diff, fmt.Sprintf("%s is %q, was %q", file, is, was))
		}
	}
	return diff, nil
}

// changed are the attributes that are wanted and that an interface does not have.
func changed(have, want Message) (m []byte) {
	h, _ := attributes(have)
	w, _ := attributes(want)
	for a := range w.all() {
		if v, has := find(h, a.kind&^unix.NLA_F_NESTED); !has || !bytes.Equal(v, a.value) {
			m = attribute(m, a.kind, a.value)
		}
	}
	return m
}

// lacking is what of a sorted list is not in another one.
func lacking(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool {
		_, in := slices.BinarySearch(b, s)
		return in
	})
}
