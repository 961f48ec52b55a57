package node_test

import (
	"slices"
	"testing"

	"gresnet/lib/base/node"
)

func TestRangesKeepTheirOrder(t *testing.T) {
	got, err := node.ParseRanges("008-010,3")
	want := []node.Range{{Low: 8, High: 10, Padded: true}, {Low: 3, High: 3}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, wanted %+v", got, err, want)
	}
	for _, text := range []string{"", "1,", "2-1", "-1", "+1", "1_0", "0x1", "1-2-3", "0000000001", " 1"} {
		if got, err := node.ParseRanges(text); err == nil {
			t.Errorf("%q reads as %+v", text, got)
		}
	}
}

func TestIndicesComeAscendingAndOnce(t *testing.T) {
	for text, want := range map[string][]int{
		"0":         {0},
		"0-1":       {0, 1},
		"0-3,6":     {0, 1, 2, 3, 6},
		"7,5,4-4":   {4, 5, 7},
		"4094-4095": {4094, 4095},
	} {
		got, err := node.ParseIndices(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Parse(%q) is %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":            `parse indices "": parse number ""`,
		"0,":          `parse indices "0,": parse number ""`,
		"0,0":         `parse indices "0,0": 0 is there twice`,
		"0-3,2":       `parse indices "0-3,2": 2 is there twice`,
		"3-1":         `parse indices "3-1": "3-1" runs backwards`,
		"-1":          `parse indices "-1": parse number ""`,
		"1-2-3":       `parse indices "1-2-3": parse number "2-3"`,
		"01":          `parse indices "01": a number has a leading zero`,
		"4096":        `parse indices "4096": index 4096 is beyond 4095`,
		"0-1024":      `parse indices "0-1024": more than 1024`,
		"0-600,0-600": `parse indices "0-600,0-600": more than 1024`,
	} {
		_, err := node.ParseIndices(text)
		if err == nil || err.Error() != want {
			t.Errorf("error %v, wanted %q", err, want)
		}
	}
}

// FuzzIndices: what reads is printed so that it reads as the same.
func FuzzIndices(f *testing.F) {
	f.Add("0-3,6")
	f.Add("7,5,4-4")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := node.ParseIndices(text)
		if err != nil {
			return
		}
		if again, err := node.ParseIndices(node.FormatIndices(list)); err != nil || !slices.Equal(again, list) {
			t.Errorf("%q reads as %v, which is printed as %q, read as %v, %v", text, list, node.FormatIndices(list), again, err)
		}
	})
}
