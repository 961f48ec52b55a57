package metrics

import (
	"context"
	"maps"
	"strconv"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/program"
)

// Page returns what was found as metrics. names are those of users by their uids; who has none there is
// called by the uid.
func (f Found) Page(names map[uint32]string) (*Page, error) {
	p := NewRunning()
	err := p.Set(RunningUnread, float64(f.Unread))
	for _, h := range f.HCAs {
		user := names[h.UID]
		if !IsWord(user) {
			user = strconv.FormatUint(uint64(h.UID), 10)
		}
		add := func(name string, value uint64, more ...string) {
			labels := append([]string{strconv.FormatUint(uint64(h.Job), 10), user, h.Device}, more...)
			err = hint.Join(err, p.Add(name, float64(value), labels...))
		}
		for _, t := range h.Ports {
			port := strconv.FormatUint(uint64(t.Port), 10)
			if v := t.Volume; v != nil {
				add(RunningSentBytes, v.SentBytes, port)
				add(RunningReceivedBytes, v.ReceivedBytes, port)
				add(RunningSentPackets, v.SentPackets, port)
				add(RunningReceivedPackets, v.ReceivedPackets, port)
			}
			others := map[string]uint64{} // a counter can be in both
			maps.Copy(others, t.Faults)
			maps.Copy(others, t.Hardware)
			for counter, grown := range others {
				add(RunningHardware, grown, port, counter)
			}
		}
		if h.IP != nil {
			add(RunningIPSentBytes, h.IP.SentBytes, h.IP.Interface)
			add(RunningIPReceivedBytes, h.IP.ReceivedBytes, h.IP.Interface)
		}
	}
	return p, err
}

// Names returns the names of the users who have jobs, as far as the site's directory says them in time.
func (f Found) Names(ctx context.Context) map[uint32]string {
	names, args := map[uint32]string{}, []string{"passwd"}
	for _, h := range f.HCAs {
		if _, is := names[h.UID]; !is {
			names[h.UID] = ""
			args = append(args, strconv.FormatUint(uint64(h.UID), 10))
		}
	}
	if len(names) == 0 {
		return names
	}
	ctx, cancel := context.WithTimeout(ctx, poll.UserNames)
	defer cancel()
	// It says those that it knows, and fails if it does not know all.
	out, _ := program.Program{Path: "getent", Args: args, Max: 1 << 20}.Run(ctx)
	for line := range strings.Lines(out) {
		// name:password:uid:…
		if fields := strings.Split(line, ":"); len(fields) > 2 {
			if uid, err := strconv.ParseUint(fields[2], 10, 32); err == nil && names[uint32(uid)] == "" {
				names[uint32(uid)] = fields[0]
			}
		}
	}
	return names
}
