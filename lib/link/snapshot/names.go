package snapshot

import (
	"encoding/json"

	"gresnet/lib/kernel/netlink"
)

// form is what Settings are in JSON: as they are, but for names, which are bytes.
type form struct {
	*settings
	Name     netlink.Name   `json:"name"`
	AltNames []netlink.Name `json:"altnames,omitempty"`
}

// settings is Settings without its methods.
type settings Settings

// MarshalJSON keeps the bytes of names.
func (s Settings) MarshalJSON() ([]byte, error) {
	f := form{settings: (*settings)(&s), Name: netlink.Name(s.Name)}
	for _, name := range s.AltNames {
		f.AltNames = append(f.AltNames, netlink.Name(name))
	}
	return json.Marshal(f)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Settings) UnmarshalJSON(text []byte) error {
	f := form{settings: (*settings)(s)}
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	s.Name, s.AltNames = string(f.Name), nil
	for _, name := range f.AltNames {
		s.AltNames = append(s.AltNames, string(name))
	}
	return nil
}
