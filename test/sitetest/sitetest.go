// Package sitetest has what tests of the mapping and of the sources need of a
// site: its HCAs, its configuration, and whose fault an error is. It is for tests
// only.
package sitetest

import (
	"errors"
	"fmt"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
)

// HCA returns the n-th HCA of a node: mlx5_n.
func HCA(n int) node.HCA {
	return node.HCA{
		ID:   node.ID{GUID: fmt.Sprintf("0002:c903:00ab:%04x", n), PCI: fmt.Sprintf("0000:%02x:00.0", 0x10+n)},
		Name: fmt.Sprintf("mlx5_%d", n),
	}
}

// HCAs returns the first n.
func HCAs(n int) []node.HCA {
	var all []node.HCA
	for i := range n {
		all = append(all, HCA(i))
	}
	return all
}

// Parse returns a configuration of the site's.
func Parse(t *testing.T, text string) config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text), "gresnet.toml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Fault wants an error that is the node's fault and has a hint.
func Fault(t *testing.T, err error, want string) {
	t.Helper()
	says(t, err, want)
	var refusal *gres.Refusal
	if errors.As(err, &refusal) {
		t.Errorf("%v is the job's fault, want the node's", err)
	}
}

// Refusal wants an error that is the job's fault and has a hint.
func Refusal(t *testing.T, err error, want string) {
	t.Helper()
	says(t, err, want)
	var refusal *gres.Refusal
	if !errors.As(err, &refusal) {
		t.Errorf("%v is the node's fault, want the job's", err)
	}
}

func says(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Fatalf("error %v,\nwant  %s", err, want)
	}
	if hint.Of(err) == "" {
		t.Errorf("%v has no hint", err)
	}
}
