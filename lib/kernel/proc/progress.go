package proc

import (
	"fmt"
	"sync/atomic"

	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/detach"
)

// Progress is where a look is, which a process that can be left behind tells again and again: who leaves
// it behind can say at which user's process it was.
type Progress struct{ at atomic.Value }

// TellProgress begins to tell.
func TellProgress(say detach.Say) *Progress {
	p := new(Progress)
	go poll.Every(poll.Progress, func() bool {
		text := p.String()
		return text == "" || say.At(text) == nil
	})
	return p
}

// At notes which process is looked at, and with which one it is compared; 0: none.
func (p *Progress) At(pid, other int) { p.at.Store([2]int{pid, other}) }

func (p *Progress) String() string {
	at, _ := p.at.Load().([2]int)
	text := userText(at[0])
	if other := userText(at[1]); at[1] != at[0] && other != "" {
		text = fmt.Sprintf("%s, beside %s", text, other)
	}
	return text
}

// userText names a process and its user, if it is still there.
func userText(pid int) string {
	if pid == 0 {
		return ""
	}
	p, uid, err := UserOf(pid)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s of user %d", p, uid)
}
