package check

import "strings"

// overlays holds [overlay] against the node.
func (s Site) overlays() []Finding {
	const about = "overlay"
	c := s.Config.Overlay
	switch {
	case !c.On():
		return nil
	case s.OverlayErr != nil:
		f := failed(about, s.OverlayErr)
		f.Text = strings.TrimPrefix(f.Text, about+": ") // as a prolog has it
		return []Finding{f}
	}
	return []Finding{ok(about, "jobs have the node's own address; UDP port %d must be open between nodes", c.Port)}
}
