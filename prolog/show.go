package main

import (
	"encoding/json"
	"io"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/cli"
)

// jsonFlag is every showing command's.
func jsonFlag() urfave.Flag {
	return &urfave.BoolFlag{Name: "json", Usage: "print JSON", DisableDefaultText: true}
}

// show prints what a command found out: as JSON if that was asked for, else for
// people.
func show(w *cli.World, c *urfave.Context, found any, print func(io.Writer) error) error {
	if c.Bool("json") {
		return printJSON(w.Stdout, found)
	}
	return print(w.Stdout)
}

func printJSON(w io.Writer, found any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(found)
}
