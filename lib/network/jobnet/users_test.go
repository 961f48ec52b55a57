package jobnet

import (
	"errors"
	"io/fs"
	"math"
	"testing"
	"testing/fstest"
)

func TestPeopleAreToldFromServices(t *testing.T) {
	for _, c := range []struct {
		defs  string
		least uint32
	}{
		{"", 1000},
		{"# UID_MIN 7\nSYS_UID_MIN 100\nUID_MIN\t\t 0x1f4\nUID_MIN 9\n", 500},
		{"UID_MIN many\n", 1000},
	} {
		u, err := readUsers(fstest.MapFS{"login.defs": {Data: []byte(c.defs)}})
		if err != nil {
			t.Fatal(err)
		}
		for uid, want := range map[uint32]bool{
			0: false, c.least - 1: false, c.least: true, 61183: true, 61184: false, 65519: false, 65520: true, 65533: true,
			65534: false, 65535: true, 1 << 31: true, math.MaxUint32 - 1: true, math.MaxUint32: false,
		} {
			if got := u.own(uid); got != want {
				t.Errorf("%q: uid %d is a person's: got %v, want %v", c.defs, uid, got, want)
			}
		}
	}
	if u, err := readUsers(fstest.MapFS{}); err != nil || u.least != 1000 {
		t.Errorf("without login.defs: got %v, %v", u, err)
	}
}

// unreadable is a folder that root may not read, as on NFS with root_squash.
type unreadable struct{}

func (unreadable) Open(string) (fs.File, error) { return nil, fs.ErrPermission }

func TestAJobGetsNoPortsWhereTheListOfUsersDoesNotRead(t *testing.T) {
	if _, err := readUsers(unreadable{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}
