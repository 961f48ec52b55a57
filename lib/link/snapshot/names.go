package snapshot

import (
	"encoding/json"

	"gresnet/lib/kernel/netlink"
)

// inJSON is what Settings are in JSON: as they are, but for names, which are bytes.
type inJSON struct {
	*settings
	Name     netlink.Name   `json:"name"`
	AltNames []netlink.Name `json:"altnames,omitempty"`
}

// settings is Settings without its methods.
type settings Settings

// MarshalJSON keeps the bytes of names.
func (s Settings) MarshalJSON() ([]byte, error) {
	out := inJSON{settings: (*settings)(&s), Name: netlink.Name(s.Name)}
	for _, name := range s.AltNames {
		out.AltNames = append(out.AltNames, netlink.Name(name))
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Settings) UnmarshalJSON(text []byte) error {
	in := inJSON{settings: (*settings)(s)}
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	s.Name, s.AltNames = string(in.Name), nil
	for _, name := range in.AltNames {
		s.AltNames = append(s.AltNames, string(name))
	}
	return nil
}
