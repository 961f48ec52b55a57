package sign

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/state"
)

// Every stands for all jobs.
const Every = "*"

// Lasting is where setup says for all boots what Expected says for one (spank/absent.c reads both).
const Lasting = "/var/lib/gresnet/setup/expected"

// maxExpected is what the plugin reads of a list (spank/sign.h, SIGN_SIZE).
const maxExpected = 1023

// asked is a GRES that is to bring a job HCAs, and which jobs that is about: those that begin from
// since on and before until, in seconds. 0 stands for always.
type asked struct {
	name         string
	since, until int64
}

// String returns it as the list has it: NAME, NAME@SINCE, NAME@SINCE-UNTIL.
func (a asked) String() string {
	switch {
	case a.until != 0:
		return fmt.Sprintf("%s@%d-%d", a.name, a.since, a.until)
	case a.since != 0:
		return fmt.Sprintf("%s@%d", a.name, a.since)
	}
	return a.name
}

func parseAsked(text string) (a asked) {
	name, times, _ := strings.Cut(text, "@")
	since, until, _ := strings.Cut(times, "-")
	a.name = name
	a.since, _ = strconv.ParseInt(since, 10, 64)
	a.until, _ = strconv.ParseInt(until, 10, 64)
	return a
}

// change returns the list in which these GRES count from now on. A job is judged by what counted when
// it began. One that comes back counts as if it had never gone.
func change(list []asked, gres []string, now int64) (next []asked) {
	for _, a := range list {
		switch counts := slices.Contains(gres, a.name); {
		case counts:
			a.until = 0
		case a.until == 0:
			a.until = now
		}
		next = append(next, a)
	}
	for _, name := range gres {
		if !slices.ContainsFunc(next, func(a asked) bool { return a.name == name }) {
			next = append(next, asked{name: name, since: now})
		}
	}
	return next
}

// print prints a list that the plugin can read whole. One too long stands for all jobs.
func print(list []asked) string {
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = a.String()
	}
	if text := strings.Join(words, ","); len(text) <= maxExpected {
		return text
	}
	return Every
}

// Expect says that each job of this node leaves a sign, and which GRES a job asks for that is to have
// HCAs; Every stands for all jobs. The time of the link says since when: from a time on at first, and
// a list that changes keeps it, since prologs leave signs whatever the list says.
func Expect(d state.Dir, gres []string, since time.Time) error {
	return expect(d.Expected(), d.MakeSigns, gres, since)
}

// ExpectForGood says so for all boots, in the name Lasting or one like it, whose folder is there.
func ExpectForGood(name string, gres []string, since time.Time) error {
	return expect(name, func() error { return nil }, gres, since)
}

func expect(name string, folder func() error, gres []string, since time.Time) error {
	want := strings.Join(gres, ",")
	if have, at, ok := target(name); ok {
		var list []asked
		for word := range strings.SplitSeq(have, ",") {
			list = append(list, parseAsked(word))
		}
		if want, since = print(change(list, gres, time.Now().Unix())), at; want == have {
			return nil
		}
	}
	if err := link(folder, want, name, since); err != nil {
		return fmt.Errorf("say that jobs leave signs: %w", err)
	}
	return nil
}

// Since returns from when on jobs are held to signs that nobody was held to before: since a job
// began, whose prolog this is, or since setup, whichever is earlier; a job without a start, or none,
// counts from now on.
func Since(lasting string, start time.Time) time.Time {
	now := time.Now()
	if info, err := os.Lstat(lasting); err == nil && info.ModTime().Before(now) {
		now = info.ModTime()
	}
	if !start.IsZero() && start.Before(now) {
		return start
	}
	return now
}

// Forget ends what Expect and ExpectForGood say.
func Forget(names ...string) error {
	for _, name := range names {
		if err := state.Remove(name); err != nil {
			return fmt.Errorf("say that jobs leave no signs: %w", err)
		}
	}
	return nil
}
