package node

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/base/hint"
)

// Bounds of a node's count of one GRES.
const (
	MaxIndex = 4095
	maxList  = 1024
)

// maxDigits bounds the length of a number, leading zeros included.
const maxDigits = 9

// Range is an element of a list: "4-7", or "4" alone, which is 4 to 4.
type Range struct {
	Low, High uint64
	Padded    bool // a number has leading zeros
}

// ParseRanges parses a list of ranges. It neither sorts nor merges them.
func ParseRanges(text string) ([]Range, error) {
	var ranges []Range
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		low, err := number(first)
		if err != nil {
			return nil, err
		}
		high, err := number(last)
		if err != nil {
			return nil, err
		}
		if high < low {
			return nil, fmt.Errorf("%q runs backwards", part)
		}
		ranges = append(ranges, Range{Low: low, High: high, Padded: padded(first) || padded(last)})
	}
	return ranges, nil
}

func padded(number string) bool { return len(number) > 1 && number[0] == '0' }

// number parses decimal digits and nothing else.
func number(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || len(text) > maxDigits {
		return 0, fmt.Errorf("parse number %q", hint.Clip(text))
	}
	return n, nil
}

// ParseIndices parses a list of GRES indices. They come ascending; none may be there twice.
func ParseIndices(text string) ([]int, error) {
	list, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse indices %q: %w", hint.Clip(text), err)
	}
	return list, nil
}

func parse(text string) ([]int, error) {
	ranges, err := ParseRanges(text)
	if err != nil {
		return nil, err
	}
	var list []int
	for _, r := range ranges {
		switch {
		case r.Padded:
			return nil, errors.New("a number has a leading zero")
		case r.High > MaxIndex:
			return nil, fmt.Errorf("index %d is beyond %d", r.High, MaxIndex)
		case len(list)+int(r.High-r.Low)+1 > maxList:
			return nil, fmt.Errorf("more than %d", maxList)
		}
		for i := r.Low; i <= r.High; i++ {
			list = append(list, int(i))
		}
	}
	slices.Sort(list)
	for i := 1; i < len(list); i++ {
		if list[i] == list[i-1] {
			return nil, fmt.Errorf("%d is there twice", list[i])
		}
	}
	return list, nil
}

// FormatIndices prints ascending indices as Parse reads them: "0-3,6".
func FormatIndices(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		last := i
		for last+1 < len(list) && list[last+1] == list[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(list[i]))
		if last > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(list[last]))
		}
		i = last + 1
	}
	return b.String()
}
