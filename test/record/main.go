// Command record runs a command and draws what it prints as an SVG, in which each line appears
// when it came. The picture has no script and loads nothing; who shows it without its animation
// sees all lines.
//
//	record -o docs/demo.svg -from 'srun --gres=nic:2' -- test/demo exclusive
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "record: %s\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	f := flag.NewFlagSet("record", flag.ContinueOnError)
	out := f.String("o", "", "write the picture into `FILE`")
	from := f.String("from", "", "begin with the first line that matches a `PATTERN`")
	title := f.String("title", "", "what is in the window's bar")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *out == "" || f.NArg() == 0 {
		return errors.New("name a file with -o, and a command")
	}
	begins, err := regexp.Compile(*from)
	if err != nil {
		return err
	}
	lines, err := record(f.Args(), os.Stderr)
	if err != nil {
		return fmt.Errorf("run %s: %w", f.Arg(0), err)
	}
	for len(lines) > 0 && !begins.MatchString(lines[0].Text) {
		lines = lines[1:]
	}
	if len(lines) == 0 {
		return fmt.Errorf("no line of %s matches %q", f.Arg(0), *from)
	}
	return os.WriteFile(*out, draw(*title, lines), 0o644)
}

// Line is a line of output, and when it came.
type Line struct {
	Text string
	At   time.Duration
}

// record runs a command, shows its output and returns its lines.
func record(command []string, show io.Writer) (lines []Line, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := bufio.NewScanner(out)
	for s.Scan() {
		lines = append(lines, Line{untabbed(s.Text()), time.Since(begun)})
		fmt.Fprintln(show, s.Text())
	}
	return lines, errors.Join(s.Err(), cmd.Wait())
}

// untabbed has spaces in place of tabs, as a terminal shows them.
func untabbed(text string) string {
	var b strings.Builder
	column := 0
	for _, r := range text {
		if r != '\t' {
			b.WriteRune(r)
			column++
			continue
		}
		for first := true; first || column%8 != 0; first = false {
			b.WriteByte(' ')
			column++
		}
	}
	return b.String()
}
