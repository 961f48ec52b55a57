package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"fmt"
)

// stream reads the output of `go test -v`, or of the tests of several folders one after
// another, and counts for a run.
type stream struct {
	run     *run
	name    string
	show    bool // print each test's result as it comes
	begin   time.Time
	missing map[string]bool     // tests that have no result
	running string              // the test that prints now
	logs    map[string][]string // what each test has printed
	tail    []string            // what was printed last
	failed  bool
	spare   bool // a VM whose processor stands still is booted once more, for the missing tests
}

// newStream makes a stream that is expected to bring the wanted tests.
func newStream(r *run, name string, wanted []string) *stream {
	s := &stream{run: r, name: name, show: len(wanted) > 0, begin: time.Now(), missing: map[string]bool{}, logs: map[string][]string{}}
	for _, test := range wanted {
		s.missing[test] = true
	}
	return s
}

// read runs a command and reads what it prints, on both of its outputs.
func (s *stream) read(cmd *exec.Cmd) {
	in, out, err := os.Pipe()
	if err != nil {
		s.end(err)
		return
	}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Start()
	out.Close()
	if err == nil {
		s.lines(in)
		err = cmd.Wait()
	}
	in.Close()
	s.end(err)
}

func (s *stream) lines(in io.Reader) {
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			s.line(strings.TrimRight(line, "\r\n"))
		}
		if err != nil {
			return
		}
	}
}

var (
	switches = regexp.MustCompile(`^=== (RUN|CONT|NAME|PAUSE) +([^/\s]*)`)
	results  = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\S+) \(([\d.]+)s\)$`)
)

func (s *stream) line(line string) {
	if line == booted {
		s.run.booted(time.Since(s.begin))
		return
	}
	if m := switches.FindStringSubmatch(line); m != nil {
		if s.running = m[2]; m[1] == "RUN" {
			s.missing[s.running] = true
		}
		return
	}
	if m := results.FindStringSubmatch(line); m != nil {
		s.result(m[1], m[2], m[3])
		return
	}
	if strings.HasPrefix(line, "    --- FAIL: ") {
		fmt.Fprintf(s.run.out, "%s: %s\n", s.name, line)
	}
	if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "vm: ") {
		fmt.Fprintf(s.run.out, "%s: %s\n", s.name, line)
	}
	s.logs[s.running] = append(s.logs[s.running], line)
	if s.tail = append(s.tail, line); len(s.tail) > 200 {
		s.tail = slices.Delete(s.tail, 0, 100)
	}
}

// result notes how a test ended. The lines that follow are its subtests' results.
func (s *stream) result(how, test, seconds string) {
	delete(s.missing, test)
	s.running = test
	log := s.logs[test]
	if s.show || how == "FAIL" {
		fmt.Fprintf(s.run.out, "%s: %s %s (%s s)\n", s.name, strings.ToLower(how), test, seconds)
	}
	switch how {
	case "PASS":
		s.run.pass()
	case "SKIP":
		s.run.skip(reason(log), 1)
	case "FAIL":
		s.fail(test, log)
	}
	delete(s.logs, test)
}

// reason returns what a skipped test said last, without the place in the source.
func reason(log []string) string {
	if len(log) == 0 {
		return "no reason was given"
	}
	_, text, found := strings.Cut(strings.TrimSpace(log[len(log)-1]), ".go:")
	if !found {
		return log[len(log)-1]
	}
	_, text, _ = strings.Cut(text, ": ")
	return text
}

func (s *stream) fail(test string, log []string) {
	s.failed = true
	if len(log) > 400 { // what hangs has many goroutines
		log = append(log[:1:1], log[len(log)-399:]...)
	}
	for _, line := range log {
		fmt.Fprintf(s.run.out, "%s:     %s\n", s.name, line)
	}
	s.run.fail(s.name+": "+test, log)
}

// stoodStill is what test/vm/vm says of a guest that the emulator has stopped.
const stoodStill = "vm: a processor of the guest stood still"

// again tells whether the missing tests are run once more, in another VM: the emulator is at fault
// for a processor that stands still, and no test.
func (s *stream) again() bool {
	still := slices.ContainsFunc(s.tail, func(line string) bool { return strings.HasPrefix(line, stoodStill) })
	return s.spare && still && len(s.missing) > 0
}

// end notes what did not come, and a failure that no test has.
func (s *stream) end(err error) {
	if s.again() {
		return
	}
	for test := range s.missing {
		log := s.logs[test]
		if len(log) == 0 {
			log = s.tail
		}
		s.fail(test+" has no result", log)
	}
	if err != nil && !s.failed {
		s.fail(err.Error(), s.tail)
	}
}
