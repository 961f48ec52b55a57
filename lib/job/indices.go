package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what a node can have of one GRES.
const (
	MaxIndex   = 4095
	maxIndices = 1024
)

// ParseIndices parses a list of GRES indices as Slurm writes it: "0,1",
// "0-3,6". The indices come ascending.
func ParseIndices(text string) ([]int, error) {
	var indices []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		lo, err := index(first)
		if err != nil {
			return nil, fmt.Errorf("parse indices %q: %w", clip(text), err)
		}
		hi, err := index(last)
		if err != nil {
			return nil, fmt.Errorf("parse indices %q: %w", clip(text), err)
		}
		if hi < lo {
			return nil, fmt.Errorf("parse indices %q: %q runs backwards", clip(text), part)
		}
		if len(indices)+hi-lo+1 > maxIndices {
			return nil, fmt.Errorf("parse indices %q: more than %d", clip(text), maxIndices)
		}
		for i := lo; i <= hi; i++ {
			indices = append(indices, i)
		}
	}
	slices.Sort(indices)
	for i := 1; i < len(indices); i++ {
		if indices[i] == indices[i-1] {
			return nil, fmt.Errorf("parse indices %q: %d is there twice", clip(text), indices[i])
		}
	}
	return indices, nil
}

func index(text string) (int, error) {
	n, err := number(text)
	switch {
	case err != nil:
		return 0, err
	case n > MaxIndex:
		return 0, fmt.Errorf("index %d is beyond %d", n, MaxIndex)
	}
	return int(n), nil
}

// FormatIndices prints ascending indices as ParseIndices reads them: "0-3,6".
func FormatIndices(indices []int) string {
	var b strings.Builder
	for i := 0; i < len(indices); {
		last := i
		for last+1 < len(indices) && indices[last+1] == indices[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(indices[i]))
		if last > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(indices[last]))
		}
		i = last + 1
	}
	return b.String()
}
