package nhc

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"gresnet/lib/words/poll"
)

// inBash tells for each argument but the first whether bash finds that it means the first one, as NHC's
// mcheck_glob and mcheck_regexp ask bash (scripts/common.nhc).
const inBash = `host=$1; shift
for target; do
	case $target in
	/*/) target=${target#/} && [[ $host =~ ${target%/} ]] ;;
	*) [[ $host == $target ]] ;;
	esac
	[ $? = 0 ]; echo $?
done`

// matches tells for each target of a line whether it means a host, as NHC's mcheck does (scripts/common.nhc): a
// glob of bash's, a regular expression between slashes, or a list of nodes in braces, each perhaps after an
// exclamation mark. Bash says of globs and expressions what they mean; without its answer they mean the host.
func matches(host string, targets []string) []bool {
	means := make([]bool, len(targets))
	asked := []string{"-c", inBash, "bash", host}
	for _, target := range targets {
		if _, is := listed(target); !is {
			asked = append(asked, strings.TrimPrefix(target, "!"))
		}
	}
	answers, err := answersOf(asked)
	sure := err == nil && len(answers) == len(asked)-4
	for i, target := range targets {
		not := strings.HasPrefix(target, "!")
		if list, is := listed(target); is {
			means[i] = inList(host, list) != not
			continue
		}
		means[i] = true
		if sure {
			means[i] = (answers[0] == "0") != not
			answers = answers[1:]
		}
	}
	return means
}

// answersOf returns the words that bash prints; none if it is asked for no target.
func answersOf(asked []string) ([]string, error) {
	if len(asked) == 4 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), poll.Bash)
	defer cancel()
	bash := exec.CommandContext(ctx, "/bin/bash", asked...)
	bash.Env = []string{"LC_ALL=C"}
	out, err := bash.Output()
	return strings.Fields(string(out)), err
}

// listed returns what is in a target's braces, and whether it has these.
func listed(target string) (list string, is bool) {
	target = strings.TrimPrefix(target, "!")
	if len(target) < 2 || target[0] != '{' || target[len(target)-1] != '}' {
		return "", false
	}
	return target[1 : len(target)-1], true
}

var (
	oneNode = regexp.MustCompile(`^[-a-zA-Z0-9_]+[0-9]+[-\\.a-zA-Z0-9]*$`)
	aRange  = regexp.MustCompile(`^([-a-zA-Z0-9_]+)\[([0-9]+)-([0-9]+)\]([-\\.a-zA-Z0-9]*)$`)
)

// inList tells whether a list as pdsh has it, n1,n[03-10].cluster, has a host. What is no node's name
// ends the list. A bare comma at its end does not.
func inList(host, list string) bool {
	for _, group := range strings.Split(strings.TrimSuffix(list, ","), ",") {
		if oneNode.MatchString(group) {
			if strings.ReplaceAll(group, `\`, "") == host {
				return true
			}
			continue
		}
		m := aRange.FindStringSubmatch(group)
		if m == nil {
			return false
		}
		if inRange(host, m[1], m[2], m[3], m[4]) {
			return true
		}
	}
	return false
}

// inRange tells whether a host is prefix, a number of the range, suffix. The number has as many
// digits as the first of the range, or as the last if that has more.
func inRange(host, prefix, first, last, suffix string) bool {
	number, found := strings.CutPrefix(host, prefix)
	if !found {
		return false
	}
	if suffix != "" {
		if !strings.HasSuffix(host, suffix) {
			return false
		}
		number = strings.TrimSuffix(number, suffix)
	}
	if len(number) != max(len(first), len(last)) && len(first) < len(last) || len(number) != len(first) && len(first) >= len(last) {
		return false
	}
	low, err1 := strconv.ParseUint(first, 10, 63)
	high, err2 := strconv.ParseUint(last, 10, 63)
	n, err3 := strconv.ParseUint(number, 10, 63)
	return err1 == nil && err2 == nil && err3 == nil && min(low, high) <= n && n <= max(low, high)
}
