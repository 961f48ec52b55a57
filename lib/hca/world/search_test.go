package world

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/state"
	"gresnet/test/netnstest"
)

// nothing comes.
type nothing struct{}

func (nothing) Wait(most time.Duration) error { time.Sleep(most); return nil }
func (nothing) Close()                        {}

func TestAnHCAThatIsLostIsBelievedToBeHoweverLongALookTakes(t *testing.T) {
	const (
		lost, has = "0000:01:00.0", "0000:02:00.0"
		place     = "devices/pci0000:00/" + has + "/infiniband_verbs/uverbs0"
		gone      = "the node does not have it any more"
		hidden    = "it is neither on the node nor in its job"
	)
	sys := fstest.MapFS{
		"class/infiniband_verbs/uverbs0": {Data: []byte("../../" + place), Mode: fs.ModeSymlink},
		place + "/ibdev":                 {Data: []byte("mlx5_0\n")},
	}
	notFound := errors.New("not found")
	for name, c := range map[string]struct {
		hca         string
		first, next time.Duration // how long looks take
		all         time.Duration // what the run has
		want        string
		least, most time.Duration
	}{
		"lost":                               {lost, 0, 0, time.Minute, gone, poll.Gone.Most, poll.Gone.Most + time.Second},
		"lost, and a slow first look":        {lost, 7 * time.Second, 2 * time.Second, time.Minute, gone, 7*time.Second + poll.Gone.Most, 15 * time.Second},
		"lost, and slow looks":               {lost, 11 * time.Second, 11 * time.Second, time.Minute, gone, 11*time.Second + poll.Gone.Most, 23 * time.Second},
		"lost, and the run's time is over":   {lost, 0, 0, 3 * time.Second, hidden, 3 * time.Second, 4 * time.Second},
		"hidden":                             {has, 0, 0, time.Minute, hidden, poll.Hidden.Most, poll.Hidden.Most + time.Second},
		"hidden, and slow looks":             {has, 6 * time.Second, 6 * time.Second, time.Minute, hidden, poll.Hidden.Most, 13 * time.Second},
		"hidden, and the run's time is over": {has, 0, 0, 8 * time.Second, hidden, 8 * time.Second, 9 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.all)
			defer cancel()
			w := &World{Given: Given{Budget: poll.Budget{Context: ctx}, Sys: sys}, session: session{arrivals: nothing{}}}
			begun := time.Now()
			takes := c.first
			isGone := func() (bool, error) { return w.HasLost(node.ID{PCI: c.hca}) }
			err := w.Await(isGone, notFound, func() error {
				time.Sleep(takes)
				takes = c.next
				return notFound
			})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
			if took := time.Since(begun); took < c.least || took > c.most {
				t.Errorf("%s: it took %s, wanted %s to %s", name, took, c.least, c.most)
			}
		})
	}
}

func TestOnlyWhatTheEndOfItsNamespaceReturnsIsAwaited(t *testing.T) {
	other := netnstest.New(t)
	host, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	notFound := errors.New("not found")
	for _, returns := range []bool{true, false} {
		w := &World{Given: Given{Root: host, Sys: fstest.MapFS{}, Dir: state.Lease(t.TempDir())}}
		looks := map[string]int{}
		err := w.Either(returns, notFound, func(*scan.View) error {
			ns, err := netns.Open("/proc/thread-self/ns/net")
			if err != nil {
				return err
			}
			defer ns.Close()
			if looks[ns.String()]++; ns.String() == host.String() && looks[ns.String()] == 2 {
				return nil // it has come
			}
			return notFound
		})
		w.Close()
		if found := err == nil; found != returns || !found && !errors.Is(err, notFound) {
			t.Errorf("it comes back: %t, and the search says %v", returns, err)
		}
		if looks[other.String()] != 0 {
			t.Errorf("it looked %d times into another namespace", looks[other.String()])
		}
	}
}

func TestAnHCAIsLostWhereAllUverbsDevicesThatMayBeItsAreOthers(t *testing.T) {
	const place, guid, other = "0000:01:00.0", "0002:c903:00ab:0000", "0002:c903:00ab:0001"
	owner := func(device, pci string) sysfs.Owner {
		return sysfs.Owner{Device: device, Address: sysfs.BusAddress{PCI: pci}}
	}
	device := func(name string, id node.ID) scan.Device { return scan.Device{Name: name, ID: id} }
	at := func(guid string) node.ID { return node.ID{GUID: guid, PCI: place} }
	elsewhere := node.ID{GUID: other, PCI: "0000:02:00.0"}
	for name, c := range map[string]struct {
		has  []sysfs.Owner
		seen []scan.Device
		want bool
	}{
		"nothing has uverbs":                  {nil, nil, true},
		"the other one of its function":       {[]sysfs.Owner{owner("mlx5_1", place)}, []scan.Device{device("mlx5_1", at(other))}, true},
		"itself":                              {[]sysfs.Owner{owner("mlx5_0", place)}, []scan.Device{device("mlx5_0", at(guid))}, false},
		"itself and the other one":            {[]sysfs.Owner{owner("mlx5_0", place), owner("mlx5_1", place)}, []scan.Device{device("mlx5_0", at(guid)), device("mlx5_1", at(other))}, false},
		"one that is hidden":                  {[]sysfs.Owner{owner("mlx5_0", place)}, nil, false},
		"the other one, and one is hidden":    {[]sysfs.Owner{owner("mlx5_0", place), owner("mlx5_1", place)}, []scan.Device{device("mlx5_1", at(other))}, false},
		"a name that another place's has":     {[]sysfs.Owner{owner("mlx5_0", place)}, []scan.Device{device("mlx5_0", elsewhere)}, false},
		"a name that two have, one hidden":    {[]sysfs.Owner{owner("mlx5_0", place), owner("mlx5_0", place)}, []scan.Device{device("mlx5_0", at(other))}, false},
		"a name that two have, in two jobs":   {[]sysfs.Owner{owner("mlx5_0", place), owner("mlx5_0", place)}, []scan.Device{device("mlx5_0", at(other)), device("mlx5_0", at("0002:c903:00ab:0002"))}, true},
		"a VF of the function at its address": {[]sysfs.Owner{owner("mlx5_2", place)}, []scan.Device{{Name: "mlx5_2", ID: node.ID{PCI: "0000:00:01.0", VF: "0"}, Function: place}}, true},
	} {
		if got := areOthers(c.has, c.seen, at(guid)); got != c.want {
			t.Errorf("%s: the node has lost it: %t, wanted %t", name, got, c.want)
		}
	}
}
