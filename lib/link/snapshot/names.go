package snapshot

import (
	"encoding/json"

	"gresnet/lib/kernel/netlink"
)

// Form is what Settings are in JSON: as they are, but for names, which are bytes. Whoever keeps settings among others
// gives encoding/json this in their place: what a MarshalJSON returns, it goes through once more.
type Form struct {
	*settings
	Name     netlink.Name   `json:"name"`
	AltNames []netlink.Name `json:"altnames,omitempty"`
}

// settings is Settings without its methods.
type settings Settings

// Form returns the form of settings, to be written or to be read into.
func (s *Settings) Form() Form {
	f := Form{settings: (*settings)(s), Name: netlink.Name(s.Name)}
	for _, name := range s.AltNames {
		f.AltNames = append(f.AltNames, netlink.Name(name))
	}
	return f
}

// Read has the settings whose form was read have its names.
func (f Form) Read() {
	f.settings.Name, f.settings.AltNames = string(f.Name), nil
	for _, name := range f.AltNames {
		f.settings.AltNames = append(f.settings.AltNames, string(name))
	}
}

// MarshalJSON keeps the bytes of names.
func (s Settings) MarshalJSON() ([]byte, error) { return json.Marshal(s.Form()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Settings) UnmarshalJSON(text []byte) error {
	f := Form{settings: (*settings)(s)}
	err := json.Unmarshal(text, &f)
	if err == nil {
		f.Read()
	}
	return err
}
