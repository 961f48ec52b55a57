package sriov

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/program"
)

// OVSPort is a port of Open vSwitch, and its VLANs as ovsdb-server has them.
type OVSPort struct {
	UUID   string   `json:"uuid"`                // a port that is made again has another
	Tag    []int    `json:"tag,omitempty"`       // one at most
	Trunks []int    `json:"trunks,omitempty"`    // none: all
	Mode   []string `json:"vlan_mode,omitempty"` // one at most
}

// in returns the port in one VLAN alone, which the VF does not see.
func (o *OVSPort) in(vlan int) *OVSPort {
	return &OVSPort{UUID: o.UUID, Tag: []int{vlan}, Mode: []string{"access"}}
}

// set sets the VLANs of the port. It returns when ovs-vswitchd has them, too.
func (o *OVSPort) set(ctx context.Context) error {
	_, err := askOVS(ctx, "set", "Port", o.UUID, "tag="+list(o.Tag), "trunks="+list(o.Trunks), "vlan_mode="+list(o.Mode))
	return err
}

// list writes a set of the database: [1,2].
func list[T any](all []T) string { return strings.ReplaceAll(fmt.Sprint(all), " ", ",") }

// isThere tells whether Open vSwitch has the port still.
func (o *OVSPort) isThere(ctx context.Context) (bool, error) {
	text, err := askOVS(ctx, "--format=json", "--if-exists", "--columns=_uuid", "list", "Port", o.UUID)
	if err != nil {
		return false, err
	}
	rows, err := decode(text)
	return err == nil && len(rows[0]) > 0, err
}

// findOVSPort finds the port of Open vSwitch that a representor is.
func findOVSPort(ctx context.Context, rep Link) (*OVSPort, error) {
	name, err := json.Marshal(rep.Name)
	if err != nil {
		return nil, err
	}
	named := "name=" + string(name)
	text, err := askOVS(ctx, "--format=json", "--columns=_uuid", "find", "Interface", named, "--",
		"--columns=_uuid,interfaces,tag,trunks,vlan_mode", "find", "Port", named)
	if err != nil {
		return nil, err
	}
	port, err := parseOVSPort(text)
	if err == nil && port == nil {
		err = fmt.Errorf("representor %s is no port of its own in the database of Open vSwitch", rep.Name)
		err = hint.With(err, "GN756 see ovs-vsctl show: take it out of its bond, or leave vlan out of vf")
	}
	return port, err
}

// parseOVSPort reads what findOVSPort asks for. It is nil if the database has no such port, or one that has other
// interfaces, too: a bond.
func parseOVSPort(text string) (*OVSPort, error) {
	tables, err := decode(text)
	if err != nil {
		return nil, err
	}
	if len(tables) != 2 || len(tables[0]) != 1 || len(tables[1]) != 1 {
		return nil, nil
	}
	is, row := tables[0][0], tables[1][0]
	if len(is) != 1 || len(row) != 5 {
		return nil, fmt.Errorf("read what %s prints: %q", vsctl, text)
	}
	var o OVSPort
	var uuid [2]string // "uuid", and the id
	err = hint.Join(json.Unmarshal(row[0], &uuid), atoms(row[2], &o.Tag), atoms(row[3], &o.Trunks), atoms(row[4], &o.Mode))
	if err != nil || string(row[1]) != string(is[0]) {
		return nil, err
	}
	o.UUID = uuid[1]
	return &o, nil
}

// decode reads the tables that ovs-vsctl prints: rows of values.
func decode(text string) (tables [][][]json.RawMessage, err error) {
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var t struct{ Data [][]json.RawMessage }
		err := d.Decode(&t)
		if errors.Is(err, io.EOF) && len(tables) > 0 {
			return tables, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what %s prints: %w", vsctl, err)
		}
		tables = append(tables, t.Data)
	}
}

// atoms reads a value: one, or a set of any number of them (RFC 7047).
func atoms[T any](value json.RawMessage, into *[]T) error {
	var set []json.RawMessage
	if json.Unmarshal(value, &set) == nil && len(set) == 2 && string(set[0]) == `"set"` {
		return json.Unmarshal(set[1], into)
	}
	*into = make([]T, 1)
	return json.Unmarshal(value, &(*into)[0])
}

// vsctl is a variable for tests.
var vsctl = "/usr/bin/ovs-vsctl"

// maxOVS bounds an answer: a port has 4096 VLANs at most.
const maxOVS = 64 << 10

// askOVS runs ovs-vsctl. What a run asked for that was killed, ovsdb-server does before it answers the next one: it
// serves all connections in turn.
func askOVS(ctx context.Context, args ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(ctx, poll.OVS)
	defer cancel()
	if err = program.Check(vsctl); err == nil {
		out, err = program.Program{Path: vsctl, Args: args, Max: maxOVS}.Run(ctx)
	}
	if err != nil {
		err = hint.With(fmt.Errorf("ask Open vSwitch by %s: %w", vsctl, err), "GN755 see systemctl status openvswitch-switch, or openvswitch")
	}
	return out, err
}
