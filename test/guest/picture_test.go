package guest

import (
	"testing"

	"gresnet/test/netnstest"
)

// picture is the node as gresnet is held to restore it, see test/picture.
func picture(t *testing.T) string {
	t.Helper()
	return run(t, repo()+"/test/picture")
}

// same fails the test unless the node is as it was.
func same(t *testing.T, before string) {
	t.Helper()
	if diff := netnstest.Diff(before, picture(t)); diff != "" {
		t.Errorf("the node is not as it was, before (-) and after (+):\n%s", diff)
	}
}
