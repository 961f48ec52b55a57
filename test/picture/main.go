// Print prints a snapshot of this node, with -whole the whole one.
package main

import (
	"fmt"
	"os"
	"slices"

	"gresnet/lib/admin/picture"
	"gresnet/test/picture/whole"
)

func main() {
	take := picture.Take
	if slices.Contains(os.Args, "-whole") {
		take = whole.Picture
	}
	text, err := take()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(text)
}
