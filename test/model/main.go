// Command model checks the models of the protocol, lease.pml and slots.pml, with spin.
// README.md says what they cover.
//
// It explores each configuration in full, in which no property may fail. Then it leaves out one invariant
// after the other, and spin must find a fault each time, or the invariant would not be needed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	traces := flag.Bool("traces", false, "print the shortest way to each mutation's fault")
	only := flag.String("only", "", "the one configuration or mutation that is run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := all(ctx, os.Stdout, *only, *traces); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

// all runs what there is and prints a line for each. The error says how many ended otherwise than
// they must.
func all(ctx context.Context, out io.Writer, only string, traces bool) error {
	wrong, ran := 0, 0
	fmt.Fprintf(out, "%-36s %10s %8s %8s  %s\n", "", "states", "seconds", "MiB", "verdict")
	for _, r := range runs {
		if only != "" && r.name != only {
			continue
		}
		ran++
		found, err := r.check(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		verdict, right := found.verdict(r)
		if !right {
			wrong++
		}
		fmt.Fprintf(out, "%-36s %10d %8.1f %8d  %s\n", r.name, found.states, found.took.Seconds(), found.memory>>20, verdict)
		if traces || !right {
			for _, line := range found.trace {
				fmt.Fprintln(out, "   ", line)
			}
		}
	}
	switch {
	case ran == 0:
		return fmt.Errorf("there is no configuration or mutation %s", only)
	case wrong > 0:
		return fmt.Errorf("%d of %d ended otherwise than they must", wrong, ran)
	}
	return nil
}
