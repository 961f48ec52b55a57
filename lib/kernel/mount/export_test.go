package mount

import (
	"io/fs"
	"testing/fstest"
)

// ServersIn lets a test give a list of mounts.
func ServersIn(text []byte) []Server { return servers(text, fstest.MapFS{}) }

// Mounted lets a test have the mounts read whatever types the kernel knows.
func Mounted() ([]Server, error) { return mountedServers() }

// HasNetwork lets a test give a list of the kernel's types.
func HasNetwork(types []byte) bool { return hasNetwork(types) }

// ServersOn lets a test give the node's files, too.
func ServersOn(text []byte, root fs.FS) []Server { return servers(text, root) }
