package mount

import (
	"io/fs"
	"testing/fstest"
)

// ServersIn lets a test give a list of mounts.
func ServersIn(text []byte) []Server { return servers(text, fstest.MapFS{}) }

// ServersOn lets a test give the node's files, too.
func ServersOn(text []byte, root fs.FS) []Server { return servers(text, root) }
