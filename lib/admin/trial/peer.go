package trial

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
)

// perftest is the program by which an HCA in the job sends to one of another host, where it waits.
const perftest = "ib_write_bw"

// checkPeer fails if nothing can send to the peer.
func (t *Trial) checkPeer() error {
	if t.Peer == "" {
		return nil
	}
	if _, err := exec.LookPath(perftest); err != nil {
		return hint.With(fmt.Errorf("--peer: %w", err), "GN736 install perftest here and on the peer")
	}
	return nil
}

// send has each HCA send to the peer as a task of the job does, and notes how fast that was.
func (t *Trial) send(ctx context.Context, group []*hca) {
	dir := t.lease()
	for _, h := range group {
		if t.Peer == "" || ctx.Err() != nil {
			return
		}
		p, err := t.playIn(ctx, dir.Netns(), partSend, dir.Devices(), t.cgroup, h.Name, t.Peer)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			h.fault("inside: send to the peer: %s", strings.ReplaceAll(err.Error(), t.Peer, "the peer")) // a report names no host
		case h.Gbits == 0 || p.Gbits < h.Gbits:
			h.Gbits = p.Gbits
		}
	}
}

// sendInLease sends from an HCA to the peer, and returns how many Gbit a second that were. The process is where
// that of seeInLease is.
func sendInLease(ctx context.Context, devices, cgroup, hca, peer string) (float64, error) {
	if err := enter(devices, cgroup); err != nil {
		return 0, err
	}
	// setup gives the same to tasks.
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}); err != nil {
		return 0, fmt.Errorf("let tasks lock memory: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, poll.Perftest)
	defer cancel()
	cmd := exec.CommandContext(ctx, perftest, "-d", hca, "-n", "1000", "--report_gbits", "-F", peer)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: jobUser, Gid: jobUser}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("it has not ended in %s", poll.Perftest)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", perftest, err, hint.Clip(strings.TrimSpace(string(out))))
	}
	return gbits(string(out))
}

// gbits reads the average of ib_write_bw's last line of figures: bytes, iterations, peak, average, messages.
func gbits(out string) (float64, error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if words := strings.Fields(lines[i]); len(words) == 5 {
			if average, err := strconv.ParseFloat(words[3], 64); err == nil {
				return average, nil
			}
		}
	}
	return 0, errors.New(perftest + " prints no line of figures")
}
