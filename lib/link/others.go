package link

import (
	"errors"
	"slices"
)

// Other is another interface of the node that routes name by its index.
type Other struct {
	Index int `json:"index"`
	ID    ID  `json:"id"`
}

// Shares tells whether other interfaces have a part in what this one has.
func (s Settings) Shares() bool {
	return len(s.HomeRoutes)+len(s.HomeNexthops) > 0 ||
		slices.ContainsFunc(s.Children, func(c Child) bool { return c.Settings.Shares() })
}

// others are the interfaces, beyond the one that they are of, that routes name.
func (c *Conn) others(routes []Message) (list []Other, err error) {
	for _, m := range routes {
		m.eachIndex(func(b []byte) {
			index := int(native.Uint32(b))
			if index == 0 || slices.ContainsFunc(list, func(o Other) bool { return o.Index == index }) {
				return
			}
			i, getErr := c.Get(index)
			if getErr != nil && !errors.Is(getErr, ErrNotFound) {
				err = getErr
			}
			if getErr == nil {
				list = append(list, Other{index, i.ID})
			}
		})
	}
	return list, err
}

// located are the settings with the indices that other interfaces have now: one that was
// away, too, may have come home under another, as IPoIB's do that are made anew.
func (c *Conn) located(want Settings) (Settings, error) {
	if len(want.Others) == 0 {
		return want, nil
	}
	list, err := c.List()
	if err != nil {
		return Settings{}, err
	}
	now := map[int]int{}
	want.Others = slices.Clone(want.Others)
	for n, o := range want.Others {
		alike := slices.DeleteFunc(slices.Clone(list), func(i Interface) bool { return i.ID != o.ID })
		stayed := slices.ContainsFunc(alike, func(i Interface) bool { return i.Index == o.Index })
		if !stayed && len(alike) == 1 {
			now[o.Index] = alike[0].Index
			want.Others[n].Index = alike[0].Index
		}
	}
	want.HomeRoutes = keep(want.HomeRoutes, func(m Message) (Message, bool) {
		out := slices.Clone(m)
		out.eachIndex(func(b []byte) {
			if index, moved := now[int(native.Uint32(b))]; moved {
				native.PutUint32(b, uint32(index))
			}
		})
		return out, true
	})
	return want, nil
}
