package part

import (
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/test/sitetest"
)

func TestEachKindOfPartsThatASiteCanAskForHasItsActions(t *testing.T) {
	for _, name := range append(node.KindNames(), "") {
		if k := node.KindNamed(name); Of(k) == nil || k.Name != name {
			t.Errorf("part = %q: %+v does %v", name, k, Of(k))
		}
	}
}

// Which kind an entry is of, the configuration says, or else its identity.
func TestAKindIsThatOfThePartAndIfThereIsNoneThatOfTheHCA(t *testing.T) {
	vf, whole := node.ID{PCI: "0000:3b:00.0", VF: "2"}, node.ID{GUID: "a", PCI: "0000:3b:00.0"}
	for _, c := range []struct {
		entry gres.Entry
		want  string
	}{
		{gres.Entry{HCA: node.HCA{ID: whole}}, ""},
		{gres.Entry{HCA: node.HCA{ID: vf}}, "vf"},
		{gres.Entry{HCA: node.HCA{ID: whole}, Part: "macvlan"}, "macvlan"},
		{gres.Entry{HCA: node.HCA{ID: vf}, Part: "pkey"}, "pkey"},
	} {
		if got := c.entry.Kind().Name; got != c.want {
			t.Errorf("%+v is of kind %q, want %q", c.entry, got, c.want)
		}
	}
}

func TestAKindThatIsAddedIsAskedForByItsNameAndByIdentityUntilItIsRemoved(t *testing.T) {
	const toml = "[[hca]]\nindex = 0\npart = \"fake\"\ncount = 2\nmatch = \"pci=3b:00.0\"\n"
	id := node.ID{PCI: "0000:3b:00.0", Aux: "fake.1"}
	number := func(id node.ID) string {
		if id.Aux == "" {
			return ""
		}
		return id.Aux[len("fake."):]
	}
	remove := Add(node.PartKind{Name: "fake", Title: "FAKE", Number: number}, Whole{})
	cfg := sitetest.Parse(t, toml)
	h := cfg.HCAs[0]
	if n, is := h.PartOf(id); n != 1 || !is || id.Kind().Title != "FAKE" || !h.Splits(node.ID{GUID: "a", PCI: id.PCI}) || h.Splits(id) {
		t.Errorf("%s is part %d, %t, of %+v", id, n, is, h)
	}
	m, err := gres.Map(cfg, []node.HCA{{ID: id, Name: "fake1"}})
	if err != nil || len(m) != 2 || m[0].Drift == nil || m[1].HCA.ID != id {
		t.Errorf("the mapping is %v, %v", m, err)
	}
	remove()
	if _, err := config.Parse([]byte(toml), "f"); err == nil || id.Kind().Splits() {
		t.Errorf("it is there still: %v", err)
	}
}
