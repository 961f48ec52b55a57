package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"gresnet/lib/base/node"
)

// PKeys returns a port's table of P_Keys, with zeros where nothing is.
func PKeys(sys fs.FS, rdma string, port uint32) (table []node.PKey, err error) {
	dir := path.Join(portDir(rdma, port), "pkeys")
	for {
		text, err := read(sys, path.Join(dir, strconv.Itoa(len(table))))
		if errors.Is(err, fs.ErrNotExist) && len(table) > 0 {
			return table, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the P_Keys of %s port %d: %w", rdma, port, err)
		}
		k, err := strconv.ParseUint(text, 0, 16)
		if err != nil {
			return nil, fmt.Errorf("read the P_Keys of %s port %d: %w", rdma, port, err)
		}
		table = append(table, node.PKey(k))
	}
}
