package link

import (
	"encoding/json"

	"golang.org/x/sys/unix"
)

// Message is an address, a route or another thing of an interface's as the
// kernel dumped it, made independent of the interface's index and of what the
// kernel counts by itself. What cannot be told apart by its Message is the
// same; what is sent back to the kernel as a request is restored with every
// attribute, also those that this program knows nothing of.
type Message []byte

// MarshalJSON writes a message as base64.
func (m Message) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(m)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Message) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, (*[]byte)(m)) }

const addrHead = unix.SizeofIfAddrmsg

func (m Message) family() byte { return m[0] }

// key is what makes a message the same message: every bit of it.
func (m Message) key() string { return string(m) }
