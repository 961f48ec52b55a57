// Package account tells the uids of people from those of the system's services.
package account

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/base/hint"
)

// Range is the uids from First to Last.
type Range struct{ First, Last uint32 }

func (r Range) has(uid uint32) bool { return r.First <= uid && uid <= r.Last }

// Users are the uids that people have on a node, in two lists that have none in common. A uid that
// is in neither is the system's.
type Users struct {
	Own    []Range // each uid is a user
	Subuid []Range // uids that users have besides their own: one user can have thousands
}

// services are the uids that systemd gives to services while they run (DynamicUser=), and nobody.
var services = []Range{{61184, 65519}, {nobody, nobody}}

const (
	nobody  = 65534
	invalid = math.MaxUint32 // (uid_t)-1

	// beyond is the first uid that no user has as their own: FreeIPA gives subuids from here on, and
	// programs that take a uid for a signed number fail.
	beyond = 1 << 31
)

// Read reads who the users of a node are. Of /etc it reads login.defs and subuid, which only root
// writes.
func Read(etc fs.FS) (Users, error) {
	least, err := leastUID(etc)
	if err != nil {
		return Users{}, err
	}
	subuid, err := readSubuid(etc)
	if err != nil {
		return Users{}, err
	}
	subuid = few(joined(append(subuid, Range{beyond, invalid - 1})))
	return Users{
		Own:    without([]Range{{least, invalid - 1}}, slices.Concat(services, subuid)),
		Subuid: without(subuid, append([]Range{{0, least - 1}}, services...)),
	}, nil
}

// Has tells whether a uid is a user.
func (u Users) Has(uid uint32) bool {
	return slices.ContainsFunc(u.Own, func(r Range) bool { return r.has(uid) })
}

// Owns tells whether a uid is a user, or one that a user has besides.
func (u Users) Owns(uid uint32) bool {
	return u.Has(uid) || slices.ContainsFunc(u.Subuid, func(r Range) bool { return r.has(uid) })
}

// leastUID is UID_MIN of login.defs, from which on adduser gives uids to people.
func leastUID(etc fs.FS) (uint32, error) {
	const usual = 1000
	text, err := read(etc, "login.defs")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "UID_MIN" {
			continue
		}
		if n, err := strconv.ParseUint(words[1], 0, 31); err == nil && n > 0 {
			return uint32(n), nil
		}
	}
	return usual, nil
}

// readSubuid reads the ranges of /etc/subuid. Lines that newuidmap passes over are none.
func readSubuid(etc fs.FS) (list []Range, err error) {
	text, err := read(etc, "subuid")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		words := strings.Split(strings.TrimSpace(line), ":")
		if len(words) != 3 {
			continue
		}
		first, err := strconv.ParseUint(words[1], 10, 32)
		count, err2 := strconv.ParseUint(words[2], 10, 32)
		if err == nil && err2 == nil && count > 0 && first < invalid {
			list = append(list, Range{uint32(first), uint32(min(first+count, invalid) - 1)})
		}
	}
	return list, nil
}

func read(etc fs.FS, name string) (string, error) {
	text, err := fs.ReadFile(etc, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", hint.With(fmt.Errorf("tell users from services: %w", err), "GN390 let root read /etc/login.defs and /etc/subuid")
	}
	return string(bytes.TrimSpace(text)), nil
}

// joined returns ranges in order, and as one those that meet.
func joined(list []Range) (all []Range) {
	slices.SortFunc(list, func(a, b Range) int { return int(int64(a.First) - int64(b.First)) })
	for _, r := range list {
		if n := len(all); n > 0 && uint64(r.First) <= uint64(all[n-1].Last)+1 {
			all[n-1].Last = max(all[n-1].Last, r.Last)
		} else {
			all = append(all, r)
		}
	}
	return all
}

// few joins those of ordered ranges that are nearest to each other until sixteen are left.
func few(list []Range) []Range {
	for len(list) > 16 {
		nearest := 1
		for i := 2; i < len(list); i++ {
			if list[i].First-list[i-1].Last < list[nearest].First-list[nearest-1].Last {
				nearest = i
			}
		}
		list[nearest-1].Last = list[nearest].Last
		list = slices.Delete(list, nearest, nearest+1)
	}
	return list
}

// without returns what is in the ranges of one list and not in those of another.
func without(list, others []Range) []Range {
	for _, o := range others {
		var left []Range
		for _, r := range list {
			if r.Last < o.First || o.Last < r.First {
				left = append(left, r)
				continue
			}
			if r.First < o.First {
				left = append(left, Range{r.First, o.First - 1})
			}
			if o.Last < r.Last {
				left = append(left, Range{o.Last + 1, r.Last})
			}
		}
		list = left
	}
	return list
}
