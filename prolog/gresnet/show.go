package main

import (
	"io"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/hca/report"
	"gresnet/lib/people/cli"
)

// jsonFlag is every showing command's.
func jsonFlag() urfave.Flag {
	return &urfave.BoolFlag{Name: "json", Usage: "print JSON", DisableDefaultText: true}
}

// show prints what a command found out: as JSON if that was asked for, else for
// people.
func show(w *cli.World, c *urfave.Context, found report.Document, print func(io.Writer) error) error {
	if c.Bool("json") {
		return report.Print(w.Stdout, found)
	}
	return print(w.Stdout)
}
