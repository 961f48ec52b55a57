package vm

import (
	"encoding/json"
	"os"
	"testing"

	"gresnet/lib/state/table"
)

const (
	// entries are the folders of the node's state, and what says that they have it.
	entries = "version hcas numbers shared hooked quarantine uplinks claims"

	// ForgetTable has the node forget its HCAs and their numbers, when no job has any.
	ForgetTable = "(cd /run && mkdir -p gresnet && cd gresnet && rm -rf " + entries + ")"
	// SaveTable keeps what jobs have on the node, and PutTable puts it back.
	SaveTable = "rm -rf /tmp/table && mkdir /tmp/table && (cd /run/gresnet && cp -a " + entries + " /tmp/table)"
	PutTable  = ForgetTable + "; cp -a /tmp/table/. /run/gresnet"
	// ListTable lists all entries, with what each has.
	ListTable = "(cd /run/gresnet; find " + entries + " -printf '%p %l\\n' | sort; grep -rs . hcas shared hooked quarantine | sort)"
)

// Table is what jobs have on the node.
func Table(t *testing.T) table.Table {
	t.Helper()
	now, err := table.Folder("/run/gresnet").Read()
	if err != nil {
		t.Error(err)
	}
	return now
}

// Jq returns what jq prints about the node table.
func Jq(t *testing.T, filter string) string {
	t.Helper()
	now := Table(t)
	if now.Claims == nil {
		now.Claims = []table.Claim{}
	}
	text, err := json.Marshal(now)
	if err == nil {
		err = os.WriteFile("/tmp/table.json", text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Run(t, "jq -r "+Quote(filter)+" /tmp/table.json")
}
