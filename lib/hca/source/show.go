package source

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/hca/gres"
	"gresnet/lib/slurm"
)

// show is what `scontrol show job -d` printed about one job
// (Slurm src/scontrol/info_job.c:_sprint_job_info).
//
// Parts of it are what the job's user wrote, line ends and all: name, account,
// comment, paths, features. A user could so write lines that look like Slurm's, also
// where Slurm writes none: of a job that has left this node meanwhile. Two things
// are read, which cannot be had that way: the beginning of the first line, which
// comes before anything of the user's and says whose text it is, and the lines
// between two that Slurm always writes (see allocated).
type show struct {
	head head
	text string
}

// head is how a job's first line begins.
type head struct {
	id   uint32
	part bool   // of an array or a het job
	name string // how to ask for this part alone: "4700_3", "4700+1"; empty if it has none
}

// errSeveral means that a text may have several jobs, so that it cannot be
// told for certain which lines are about which.
type errSeveral struct{ ask string }

func (e errSeveral) Error() string { return "several jobs; ask for " + e.ask }

// parseShow reads what scontrol printed for a job's id. For the id of an
// array's or a het job's first job it prints all of the array or het job.
func parseShow(text string, id uint32) (show, error) {
	s, err := parseAlone(text)
	if err != nil {
		return show{}, err
	}
	if s.head.part && strings.Contains(text, "\nJobId=") {
		return show{}, s.several(id)
	}
	return s, s.about(id)
}

// several finds out how to ask for one job of several.
func (s show) several(id uint32) error {
	name := ""
	for line := range strings.Lines(s.text) {
		h, ok := parseHead(line)
		if !ok || h.id != id || h.name == "" || h.name == name {
			continue
		}
		if name != "" {
			return imitated("it is %s and %s in it", name, h.name)
		}
		name = h.name
	}
	if name == "" {
		return notHere("job %d is not in it", id)
	}
	return errSeveral{ask: name}
}

// imitated refuses a job whose user's own words look like Slurm's.
func imitated(format string, a ...any) *gres.Refusal {
	return &gres.Refusal{
		Reason: gres.Imitation,

		Ask: "what scontrol says of the job",
		Why: fmt.Sprintf(format, a...) + ", and Slurm says one: the job's name, comment or a path imitates it",
	}
}

// parseAlone takes a text to be about one job, whatever it looks like.
func parseAlone(text string) (show, error) {
	if text == "" {
		return show{}, errors.New("it printed nothing")
	}
	if !strings.HasSuffix(text, "\n") {
		return show{}, errors.New("its output is cut off")
	}
	first, _, _ := strings.Cut(text, "\n")
	h, ok := parseHead(first)
	if !ok {
		return show{}, fmt.Errorf("unknown form: it begins with %q and not with JobId=", hint.Clip(first))
	}
	return show{head: h, text: text}, nil
}

func (s show) about(id uint32) error {
	if s.head.id != id {
		return notHere("it is about job %d and not %d", s.head.id, id)
	}
	return nil
}

func parseHead(line string) (head, bool) {
	text, ok := strings.CutPrefix(line, "JobId=")
	fields := strings.SplitN(text, " ", 4)
	id, err := strconv.ParseUint(fields[0], 10, 32)
	// Slurm writes no zeros before a number.
	if !ok || err != nil || len(fields) < 2 || strconv.FormatUint(id, 10) != fields[0] {
		return head{}, false
	}
	h := head{id: uint32(id)}
	h.part = strings.HasPrefix(fields[1], "ArrayJobId=") || strings.HasPrefix(fields[1], "HetJobId=")
	if h.part && len(fields) == 4 {
		h.name = partName(fields[1], fields[2])
	}
	return h, true
}

// partName is "4700_3" for "ArrayJobId=4700" and "ArrayTaskId=3". It is empty
// for what cannot be asked for alone, like the tasks "4-7" that wait.
func partName(whole, part string) string {
	whole, sign, wanted := strings.TrimPrefix(whole, "ArrayJobId="), "_", "ArrayTaskId="
	if w, het := strings.CutPrefix(whole, "HetJobId="); het {
		whole, sign, wanted = w, "+", "HetJobOffset="
	}
	number, ok := strings.CutPrefix(part, wanted)
	if !ok || !isNumber(whole) || !isNumber(number) {
		return ""
	}
	return whole + sign + number
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// Slurm writes these lines of every job, in all versions from 22.05 to 26.05. Between them it writes what the job
// has on which nodes, and nothing that users write.
const (
	beforeAllocated = "   Socks/Node="
	afterAllocated  = "   MinCPUsNode="
)

// allocated returns the lines that say what the job has on which nodes. Its user can add lines elsewhere that
// look like them, but can take no line of Slurm's away. So those between are Slurm's own if each of the two is there
// once; else the user has imitated them.
func (s show) allocated() (lines []string, err error) {
	before, after := 0, 0
	for line := range strings.Lines(s.text) {
		switch {
		case strings.HasPrefix(line, beforeAllocated):
			before++
		case strings.HasPrefix(line, afterAllocated):
			after++
		case before == 1 && after == 0:
			lines = append(lines, strings.TrimRight(line, "\r\n"))
		}
	}
	switch {
	case before > 1 || after > 1:
		return nil, imitated("%d lines are like %q and %d like %q", before, strings.TrimSpace(beforeAllocated), after, strings.TrimSpace(afterAllocated))
	case before+after < 2:
		return nil, fmt.Errorf("unknown form: it has no lines that begin with %q and with %q", strings.TrimSpace(beforeAllocated), strings.TrimSpace(afterAllocated))
	}
	return lines, nil
}

// detail returns what the job has on each of the group of nodes that a node is in.
func (s show) detail(node string) (allocation, error) {
	lines, err := s.allocated()
	if err != nil {
		return allocation{}, err
	}
	var elsewhere []string
	for _, line := range lines {
		nodes, has, ok := parseGroup(line)
		if !ok {
			continue
		}
		if list, err := slurm.ParseHostlist(nodes); err == nil && list.Contains(node) {
			return has, nil
		}
		elsewhere = append(elsewhere, nodes)
	}
	if len(elsewhere) == 0 {
		return allocation{}, notHere("it has no node now")
	}
	return allocation{}, notHere("it has %s and not %s", hint.Clip(strings.Join(elsewhere, ",")), node)
}

// notHere refuses a job that slurmctld does not have on this node any more. Its user can change that while
// its prolog runs: scontrol update ReqNodeList= or NumNodes=, requeue, scancel.
func notHere(format string, a ...any) *gres.Refusal {
	return &gres.Refusal{
		Reason: gres.NotHere,

		Ask: "what scontrol says of the job",
		Why: fmt.Sprintf(format, a...) + ": somebody has changed, requeued or canceled it since its prolog began",
		Do:  "GN841 nothing is wrong with this node: start the job again, and change its size only while it waits or when it runs",
	}
}

// parseGroup parses "     Nodes=node[1-2] CPU_IDs=0-3 Mem=0 GRES=nic:1(IDX:0)".
func parseGroup(line string) (nodes string, has allocation, ok bool) {
	text, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "Nodes=")
	if !ok {
		return "", allocation{}, false
	}
	nodes, text, ok1 := strings.Cut(text, " CPU_IDs=")
	cpus, text, ok2 := strings.Cut(text, " Mem=")
	_, detail, ok3 := strings.Cut(text, " GRES=")
	return nodes, allocation{gres: strings.TrimRight(detail, " "), cpus: cpus}, ok1 && ok2 && ok3
}
