package netnstest_test

import (
	"testing"

	"gresnet/test/netnstest"
)

// Whoever makes and removes named namespaces on the machine leaves names for a moment that mean none.
func TestWhatAProgramPrintsHasNothingOfWhatItSaysOfOthersNamespaces(t *testing.T) {
	here, there := netnstest.New(t), netnstest.New(t)
	here.IP("link add here type veth peer name there")
	here.IP("link set there netns " + there.Path)
	const show = "ip -d link show dev here"
	alone := here.Run(show)
	crowded := here.Run("mkdir -p /run/netns; mount -t tmpfs none /run/netns; touch /run/netns/gone; " + show)
	if diff := netnstest.Diff(alone, crowded); diff != "" {
		t.Errorf("alone (-) and beside a namespace that is gone (+):\n%s", diff)
	}
}
