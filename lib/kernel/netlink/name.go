package netlink

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Name is the name of an interface or of an RDMA device. To the kernel a name is bytes. JSON has
// none: a byte that is not UTF-8 is a lone surrogate there, \udc80 to \udcff. Programs that do not know
// that read U+FFFD.
type Name string

// surrogate is what a byte is in JSON, less the byte.
const surrogate = 0xdc00

// MarshalJSON writes the name as a string.
func (n Name) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(n)) {
		return json.Marshal(string(n))
	}
	out := []byte{'"'}
	for rest := string(n); rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if r == utf8.RuneError && size == 1 {
			out = fmt.Appendf(out, `\u%04x`, surrogate+uint(rest[0]))
		} else {
			text, err := json.Marshal(rest[:size])
			if err != nil {
				return nil, err
			}
			out = append(out, text[1:len(text)-1]...)
		}
		rest = rest[size:]
	}
	return append(out, '"'), nil
}

// UnmarshalJSON reads what MarshalJSON wrote, and any other string.
func (n *Name) UnmarshalJSON(text []byte) error {
	var out string
	begin := 0 // of what was not read yet
	read := func(end int) error {
		var part string
		quoted := append(append([]byte{'"'}, text[begin:end]...), '"')
		err := json.Unmarshal(quoted, &part)
		out += part
		return err
	}
	if len(text) < 2 || text[0] != '"' {
		return json.Unmarshal(text, (*string)(n))
	}
	begin = 1
	for i := 1; i < len(text)-1; {
		b, size := escaped(text[i:])
		if b != 0 {
			if err := read(i); err != nil {
				return err
			}
			out += string([]byte{b})
			begin = i + size
		}
		i += size
	}
	err := read(len(text) - 1)
	*n = Name(out)
	return err
}

// escaped returns the size of what a string goes on with, and the byte that it is, 0 if it is none.
func escaped(text []byte) (b byte, size int) {
	code, is := unit(text)
	switch {
	case is && code >= surrogate+0x80 && code <= surrogate+0xff:
		return byte(code), len(`\udc80`)
	case is && code >= 0xd800 && code < surrogate: // the first half of a character
		if _, is := unit(text[len(`\ud800`):]); is {
			return 0, len(`\ud800\udc00`)
		}
	case !is && text[0] == '\\':
		return 0, min(2, len(text))
	}
	return 0, 1
}

// unit reads \uXXXX.
func unit(text []byte) (code uint64, is bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	code, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return code, err == nil
}
