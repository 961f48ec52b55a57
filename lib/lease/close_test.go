package lease

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
)

func TestDeviceNodesAreClosedOfTheHCAsThatTheSiteListsWhereverTheyAre(t *testing.T) {
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
	}
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	sys := fstest.MapFS{"class/infiniband/mlx5_0/node_guid": file("0002:c903:0000:0100")} // mlx5_1 is in a job
	for i, pci := range []string{"0000:10:00.0", "0000:90:00.0"} {
		digit := string(rune('0' + i))
		for class, names := range map[string][]string{"infiniband_verbs": {"uverbs"}, "infiniband_mad": {"umad", "issm"}} {
			for _, name := range names {
				dir := "devices/" + pci + "/" + class + "/" + name + digit
				sys[dir+"/ibdev"] = file("mlx5_" + digit)
				sys["class/"+class+"/"+name+digit] = link("../../" + dir)
			}
		}
	}
	first, second := []string{"uverbs0", "umad0", "issm0"}, []string{"uverbs1", "umad1", "issm1"}
	for _, c := range []struct {
		match  string
		closed []string
	}{
		{"", append(slices.Clone(first), second...)},
		{"pci=0000:10:00.0", first},
		{"pci=0000:90:00.0", second},
		{"rdma=mlx5_1", second},
		{"guid=0002:c903:0000:0100", first},
		{"guid=0002:c903:0000:0101", nil}, // away, where nobody can be asked for it
	} {
		toml := ""
		if c.match != "" {
			toml = "[[hca]]\nindex = 0\nmatch = \"" + c.match + "\"\n"
		}
		n, _ := heldNode(t, toml)
		n.Sys = sys
		var closed []string
		for _, name := range append(slices.Clone(first), second...) {
			covered, err := n.covers(name)
			if err != nil {
				t.Errorf("%q: %s: %v", c.match, name, err)
			}
			if covered {
				closed = append(closed, name)
			}
		}
		if !slices.Equal(closed, c.closed) {
			t.Errorf("%q: %q are closed, wanted %q", c.match, closed, c.closed)
		}
		if _, err := n.covers("uverbs7"); toml != "" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: a node that went meanwhile: %v", c.match, err)
		}
	}
}
