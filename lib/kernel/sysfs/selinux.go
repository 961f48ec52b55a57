package sysfs

import "io/fs"

// SELinux is what the kernel says of SELinux.
type SELinux struct {
	Enforcing bool
	PKeys     bool // the policy decides who may use which P_Key
}

// ReadSELinux reads it where SELinux is mounted; a kernel without SELinux has nothing there.
func ReadSELinux(sys fs.FS) (s SELinux) {
	text, err := read(sys, "fs/selinux/enforce")
	s.Enforcing = err == nil && text == "1"
	_, err = fs.Stat(sys, "fs/selinux/class/infiniband_pkey/perms/access")
	s.PKeys = err == nil
	return s
}
