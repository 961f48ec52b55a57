package main

import (
	"fmt"
	"io"

	urfave "github.com/urfave/cli/v2"

	"gresnet/lib/admin/cli"
	"gresnet/lib/hca/report"
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

// showNone says that the kernel has no RDMA subsystem, and so the node no HCA. A script reads an empty document.
func showNone(w *cli.World, c *urfave.Context, empty report.Document) error {
	if c.Bool("json") {
		return report.Print(w.Stdout, empty)
	}
	_, err := fmt.Fprintln(w.Stderr, "the kernel has no RDMA subsystem, so this node has no HCAs: if it should, load ib_core and their driver")
	return err
}
