package cli

import (
	"fmt"
	"strconv"

	"github.com/coreos/go-systemd/v22/journal"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/plain"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/world"
	"gresnet/lib/lease/event"
)

// fieldID has the id of a message, for gresnet explain.
const fieldID = "GRESNET_ID"

// idProblem is the MESSAGE_ID of what a person is told on stderr.
const idProblem = "5e5ee970c0c34ca584c6aa92dc1cff61"

// message is how the systemd journal has a kind of event.
type message struct {
	id       string // MESSAGE_ID, as catalogs have it (sd-id128(3)). Sites search for it: it is never changed
	priority journal.Priority
	hint     string // what to do about its warnings, with their id
}

var messages = map[event.Kind]message{
	event.StepDone:       {"eea256fdf8e1489aba61667b5ab82885", journal.PriInfo, ""},
	event.StepFailed:     {"cded88888355420a871ebae7aad3299e", journal.PriWarning, ""},
	event.Differs:        {"5aaa185f954848d1b6e12a2aed2f6dff", journal.PriWarning, ""},
	event.PortWorse:      {"40a18b812f0f480eb1c71b2a64b02e9f", journal.PriWarning, world.PortHint},
	event.LeaseTaken:     {"4c8393597c5945b7bbfa9c717c631455", journal.PriNotice, ""},
	event.LeaseRefused:   {"001a984d1b854376bf0a331652114184", journal.PriNotice, ""},
	event.LeaseReturned:  {"cda683fc30a34d028f4eefdebe97cc62", journal.PriNotice, ""},
	event.LeaseCleanedUp: {"a921dd8cdb7e417b975f0787e4d3d49a", journal.PriNotice, ""},
	event.LeaseSpared:    {"f9cf367086a649eaba9f6cff64343c42", journal.PriNotice, ""},
	event.Traffic:        {"02a38d21bf4c4359913b2540b872ece6", journal.PriNotice, ""},
	event.HCAQuarantined: {"e43bb2caa13f4ef398e9a1db82a66e01", journal.PriWarning, ""},
	event.HCAReleased: {"f4330cb10ea14159bbcf09be9c47596c", journal.PriNotice,
		"GN377 see in journalctl -k where the HCA went; jobs get it when the node has it again"},
	event.TableUnread: {"dc430f78e5b04ddbb91fb9f6f9c31045", journal.PriWarning, "GN006 gresnet status shows what is quarantined"},
	event.ModeSet:     {"987700d09e93450391f32edaa8716219", journal.PriNotice, ""},
	event.ModeWrong:   {"0ba731d32cc342d6a02b5f630c89b4c7", journal.PriWarning, "GN005 gresnet check says which mode the node has after a reboot"},
	event.Remark:      {"da1a9a9fee9e4d9da57eb1d502f56873", journal.PriNotice, "GN007 compare what the line names with what the interface should have"},
}

// warningID is the id of the warnings of a kind of event.
func warningID(k event.Kind) string {
	id, _ := hint.Cut(messages[k].hint)
	return id
}

// lowest is the least urgent priority that a level of the configuration lets through.
func lowest(level string) journal.Priority {
	switch level {
	case config.LogWarnings:
		return journal.PriWarning
	case config.LogEvents:
		return journal.PriNotice
	}
	return journal.PriInfo
}

// log puts an event into the systemd journal, if the level lets it through.
func (w *World) log(level string, e event.Event) {
	m := messages[e.Kind]
	if w.Send == nil || m.priority > lowest(level) {
		return
	}
	fields := map[string]string{
		"SYSLOG_IDENTIFIER": w.name,
		"MESSAGE_ID":        m.id,
		"EVENT":             string(e.Kind),
	}
	if e.Job != 0 {
		fields["JOB_ID"] = fmt.Sprint(e.Job)
	}
	if e.HCA != "" {
		fields["HCA"] = e.HCA
	}
	if e.Action != "" {
		fields["STEP"] = e.Action
		fields["DURATION_US"] = strconv.FormatInt(e.Took.Microseconds(), 10)
	}
	if e.Warning != "" {
		fields[fieldID] = warningID(e.Kind)
	}
	if e.ID != "" {
		fields[fieldID] = e.ID
	}
	if e.Reason != "" {
		fields["REASON"] = string(e.Reason)
	}
	if e.Port != nil {
		fields["DEVICE"] = e.Device
		fields["PORT"] = fmt.Sprint(e.Port.Port)
		if v := e.Port.Volume; v != nil {
			fields["SENT_BYTES"], fields["RECEIVED_BYTES"] = fmt.Sprint(v.SentBytes), fmt.Sprint(v.ReceivedBytes)
			fields["SENT_PACKETS"], fields["RECEIVED_PACKETS"] = fmt.Sprint(v.SentPackets), fmt.Sprint(v.ReceivedPackets)
		}
	}
	w.send(textOf(e), m.priority, fields)
}

// send puts a line into the journal, where what users have named is read on terminals. A journal that
// cannot be written is no reason to fail.
func (w *World) send(line string, p journal.Priority, fields map[string]string) {
	for name, value := range fields {
		fields[name] = plain.Text(value)
	}
	_ = w.Send(plain.Text(line), p, fields)
}

// textOf is an event's line for people.
func textOf(e event.Event) string {
	text := e.Action
	switch {
	case e.Warning != "":
		text = e.Warning
	case e.Err != nil:
		text = fmt.Sprintf("%s: %v", e.Action, e.Err)
	case e.Notice != "":
		text = e.Notice
	case e.Port != nil:
		text = traffic(e.Device, *e.Port)
	}
	if e.Job == 0 {
		return text
	}
	return fmt.Sprintf("job %d: %s", e.Job, text)
}

// traffic is what a port carried, for people.
func traffic(device string, t counters.Traffic) string {
	if t.Volume == nil {
		return fmt.Sprintf("%s port %d: how much it sent is not known", device, t.Port)
	}
	return fmt.Sprintf("%s port %d sent %d bytes and received %d", device, t.Port, t.SentBytes, t.ReceivedBytes)
}

// logProblem puts into the systemd journal what a person is told on stderr: what is wrong, and what to do.
func (w *World) logProblem(text, id string, exit int) {
	if w.Send == nil {
		return
	}
	fields := map[string]string{
		"SYSLOG_IDENTIFIER": w.name,
		"MESSAGE_ID":        idProblem,
		"EVENT":             "problem",
		"EXIT_CODE":         strconv.Itoa(exit),
		fieldID:             id,
	}
	if job := w.Getenv("SLURM_JOB_ID"); job != "" {
		fields["JOB_ID"] = job
	}
	w.send(text, journal.PriErr, fields)
}
