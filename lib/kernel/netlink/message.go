package netlink

import (
	"fmt"
	"slices"
)

// Key returns what makes a message the same message: every bit of it.
func Key[M ~[]byte](m M) string { return string(m) }

// On returns a message as a request for the interface with an index. The index is behind the first four
// bytes, as struct ifaddrmsg and struct ndmsg have it.
func On[M ~[]byte](m M, index int) []byte {
	out := slices.Clone([]byte(m))
	native.PutUint32(out[4:], uint32(index))
	return out
}

// Cleaned cleans messages as dumped, and drops those for which clean returns nil.
func Cleaned[M ~[]byte](dumped [][]byte, clean func([]byte) (M, error)) ([]M, error) {
	list := make([]M, 0, len(dumped))
	for _, d := range dumped {
		m, err := clean(d)
		if err != nil {
			return nil, err
		}
		if m != nil {
			list = append(list, m)
		}
	}
	return list, nil
}

// Missing returns what of a is not in b, in the order of a.
func Missing[M ~[]byte](a, b []M, key func(M) string) []M {
	in := make(map[string]bool, len(b))
	for _, m := range b {
		in[key(m)] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(m M) bool { return in[key(m)] })
}

// Differences says what of one list is missing in the other, and what was not there.
func Differences[M ~[]byte](what string, have, want []M, key, name func(M) string) (diff []string) {
	for _, m := range Missing(want, have, key) {
		diff = append(diff, fmt.Sprintf("%s %s is missing", what, name(m)))
	}
	for _, m := range Missing(have, want, key) {
		diff = append(diff, fmt.Sprintf("%s %s was not there", what, name(m)))
	}
	return diff
}

// With returns a list with what it lacks of another.
func With[M ~[]byte](list, more []M, key func(M) string) []M {
	return append(slices.Clone(list), Missing(more, list, key)...)
}

// Keep applies a function to a list's messages, and drops those that it drops.
func Keep[M ~[]byte](list []M, f func(M) (M, bool)) (kept []M) {
	for _, m := range list {
		if m, keeps := f(m); keeps {
			kept = append(kept, m)
		}
	}
	return kept
}

// Part parts a list in two.
func Part[M ~[]byte](list []M, is func(M) bool) (those, others []M) {
	for _, m := range list {
		if is(m) {
			those = append(those, m)
		} else {
			others = append(others, m)
		}
	}
	return those, others
}
