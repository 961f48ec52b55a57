package vm

import "os"

// Rounds returns how often the short and the long tests do something.
func Rounds(short, long int) int {
	switch os.Getenv("GRESNET_TEST") {
	case "long", "all":
		return long
	}
	return short
}
