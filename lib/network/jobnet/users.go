package jobnet

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"gresnet/lib/base/hint"
)

// users tells the uids that people have, by themselves or by user namespaces, from those of the system's services.
type users struct {
	least uint32 // the first uid of a person
}

// readUsers reads UID_MIN of login.defs, from which on useradd gives uids to people. Only root writes that file.
func readUsers(etc fs.FS) (users, error) {
	const usual = 1000
	text, err := fs.ReadFile(etc, "login.defs")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return users{}, hint.With(fmt.Errorf("tell users from services: %w", err), "GN390 let root read /etc/login.defs")
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "UID_MIN" {
			continue
		}
		if n, err := strconv.ParseUint(words[1], 0, 31); err == nil && n > 0 {
			return users{uint32(n)}, nil
		}
	}
	return users{usual}, nil
}

// own tells whether a uid is a person's.
func (u users) own(uid uint32) bool {
	const (
		nobody         = 65534
		invalid        = math.MaxUint32 // (uid_t)-1
		dynamic, after = 61184, 65520   // services that run with systemd's DynamicUser=
	)
	return uid >= u.least && (uid < dynamic || uid >= after) && uid != nobody && uid != invalid
}
