package network

import (
	"os"

	"gresnet/lib/base/account"
	"gresnet/lib/kernel/nft"
)

// leastJobs is how many jobs a node has room for at least, when the list of connections is shared out.
const leastJobs = 8

// shares returns how many connections a job and a user of the node may have at one time, of those
// that the kernel tracks. All jobs together begin half of them at most, whatever their number. A
// user has what one of eight jobs has.
func shares(tracked, jobs int) (job, user uint32) {
	half := uint32(tracked / 2)
	return max(half/uint32(max(jobs, leastJobs)), 1), max(half/leastJobs, 1)
}

// limit bounds the connections of the job and of the users of the node. Jobs must not fill the
// kernel's list, and neither must a user with several jobs, subuids, or kernel sockets.
func (s *Uplink) limit(job *nft.Job) error {
	tracked, err := nft.Tracked()
	if err != nil {
		return err
	}
	users, err := account.Read(os.DirFS("/etc"))
	if err != nil {
		return err
	}
	job.Users.Users = users
	job.Most, job.Users.Most = shares(tracked, s.Jobs)
	return nil
}
