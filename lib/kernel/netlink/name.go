package netlink

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Name is the name of an interface or of an RDMA device. To the kernel a name is bytes, and JSON has none: one
// that is not UTF-8 is a list there with one element, its bytes as encoding/json has them.
type Name string

// MarshalJSON writes the name as a string, if it is one.
func (n Name) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(n)) {
		return json.Marshal(string(n))
	}
	return json.Marshal([][]byte{[]byte(n)})
}

// UnmarshalJSON reads what MarshalJSON wrote, and any other string.
func (n *Name) UnmarshalJSON(text []byte) error {
	if text[0] != '[' {
		return json.Unmarshal(text, (*string)(n))
	}
	var list [][]byte
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	if len(list) != 1 {
		return fmt.Errorf("a name of %d parts", len(list))
	}
	*n = Name(list[0])
	return nil
}
