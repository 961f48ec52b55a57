// Print prints a snapshot of this node.
package main

import (
	"fmt"
	"os"

	"gresnet/test/snapshot"
)

func main() {
	text, err := snapshot.Take()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(text)
}
