package source_test

import (
	"errors"
	"fmt"
	"testing"

	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/node"
)

// hca is the n-th HCA of a node: mlx5_n.
func hca(n int) node.HCA {
	return node.HCA{
		ID:   node.ID{GUID: fmt.Sprintf("0002:c903:00ab:%04x", n), PCI: fmt.Sprintf("0000:%02x:00.0", 0x10+n)},
		Name: fmt.Sprintf("mlx5_%d", n),
	}
}

func hcas(n int) []node.HCA {
	var all []node.HCA
	for i := range n {
		all = append(all, hca(i))
	}
	return all
}

// parse is a configuration of the site's.
func parse(t *testing.T, text string) config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text), "gresnet.toml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// checkFault wants an error that is the node's fault and has a hint.
func checkFault(t *testing.T, err error, want string) {
	t.Helper()
	checkText(t, err, want)
	var refusal *gres.Refusal
	if errors.As(err, &refusal) {
		t.Errorf("%v is the job's fault, want the node's", err)
	}
}

// checkRefusal wants an error that is the job's fault and has a hint.
func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	checkText(t, err, want)
	var refusal *gres.Refusal
	if !errors.As(err, &refusal) {
		t.Errorf("%v is the node's fault, want the job's", err)
	}
}

func checkText(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Fatalf("error %v,\nwant  %s", err, want)
	}
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || hinted.Hint() == "" {
		t.Errorf("%v has no hint", err)
	}
}
