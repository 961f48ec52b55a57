package sriov

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/kernel/program"
	"gresnet/test/netnstest"
)

// What ovs-vsctl of Open vSwitch 3.1 prints of an interface and of a port.
const (
	anInterface = `{"data":[[["uuid","50cb3615-64ca-4af4-a56c-d42cd2debaec"]]],"headings":["_uuid"]}` + "\n"
	noInterface = `{"data":[],"headings":["_uuid"]}` + "\n"
	noPort      = `{"data":[],"headings":["_uuid","interfaces","tag","trunks","vlan_mode"]}` + "\n"
)

func aPort(interfaces, vlans string) string {
	return `{"data":[[["uuid","f4c75ab6-4e2d-4c9f-b25d-3cb21d1d0283"],` + interfaces + `,` + vlans + `]],"headings":["_uuid","interfaces","tag","trunks","vlan_mode"]}` + "\n"
}

func TestAPortOfOpenVSwitchIsReadFromWhatOVSVsctlPrints(t *testing.T) {
	const one, other = `["uuid","50cb3615-64ca-4af4-a56c-d42cd2debaec"]`, `["uuid","758ca344-22a5-4de8-9842-1c1497c6f123"]`
	for _, c := range []struct{ text, note string }{
		{anInterface + aPort(one, `["set",[]],["set",[]],["set",[]]`), ``},
		{anInterface + aPort(one, `3,["set",[]],["set",[]]`), `,"tag":[3]`},
		{anInterface + aPort(one, `0,["set",[]],"access"`), `,"tag":[0],"vlan_mode":["access"]`},
		{anInterface + aPort(one, `["set",[]],5,"trunk"`), `,"trunks":[5],"vlan_mode":["trunk"]`},
		{anInterface + aPort(one, `7,["set",[1,2]],"native-tagged"`), `,"tag":[7],"trunks":[1,2],"vlan_mode":["native-tagged"]`},
		{anInterface + aPort(`["set",[`+one+`,`+other+`]]`, `3,["set",[]],["set",[]]`), "null"}, // a bond of the same name
		{anInterface + aPort(other, `3,["set",[]],["set",[]]`), "null"},
		{anInterface + noPort, "null"},
		{noInterface + noPort, "null"},
	} {
		if c.note != "null" {
			c.note = `{"uuid":"f4c75ab6-4e2d-4c9f-b25d-3cb21d1d0283"` + c.note + `}`
		}
		got, err := parseOVSPort(c.text)
		note, _ := json.Marshal(got)
		if string(note) != c.note || err != nil {
			t.Errorf("%s is noted as %s, wanted %s: %v", c.text, note, c.note, err)
		}
		var noted *OVSPort
		if err := json.Unmarshal(note, &noted); err != nil || fmt.Sprint(noted) != fmt.Sprint(got) {
			t.Errorf("%s is read from the note as %+v: %v", c.text, noted, err)
		}
	}
	for _, text := range []string{"", "\n", "[]", "{", anInterface + aPort(one, `"x","y","z"`), anInterface + aPort("1", "2"), `{"data":[[]]}{"data":[[]]}`} {
		if got, err := parseOVSPort(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// inPlace puts a shell script in the place of ovs-vsctl.
func inPlace(t *testing.T, script string) {
	t.Helper()
	was := vsctl
	t.Cleanup(func() { vsctl = was })
	vsctl = filepath.Join(netnstest.RootsFolder(t), "ovs-vsctl")
	if script == "" {
		return
	}
	if err := os.WriteFile(vsctl, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestOpenVSwitchThatDoesNotAnswerHoldsNobodyUp(t *testing.T) {
	port := &OVSPort{UUID: "f4c75ab6"}
	inPlace(t, "exec sleep infinity")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := port.set(ctx); !errors.Is(err, program.ErrLate) {
		t.Errorf("of one that hangs it says %v", err)
	}
	for script, want := range map[string]string{
		"": "there is no such program",
		"echo 'ovs-vsctl: unix:/var/run/openvswitch/db.sock: database connection failed (No such file or directory)' >&2; exit 1": "database connection failed",
	} {
		inPlace(t, script)
		if _, err := findOVSPort(t.Context(), Link{Name: "eth0"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v, wanted %q", err, want)
		}
	}
}

// Open vSwitch keeps the port of an interface that is gone.
func TestAPortOfOpenVSwitchGetsItsVLANsBackUnlessItIsAnother(t *testing.T) {
	had := Port{OVS: &OVSPort{UUID: "f4c75ab6", Tag: []int{7}, Trunks: []int{1, 2}, Mode: []string{"native-tagged"}}}
	rep := &Representor{Name: "eth0", Had: had, Want: had.In(100)}
	if got := rep.Sets(); got != "tag [100]" {
		t.Errorf("it sets %q", got)
	}
	vf := node.ID{PCI: "0000:3b:00.0", VF: "1"}
	for name, sys := range map[string]fstest.MapFS{"is no interface any more": {}, "goes at this moment": switchTree("2147483647")} {
		for answer, want := range map[string]struct{ asked, said string }{
			`{"data":[[["uuid","f4c75ab6"]]]}`: {"set Port f4c75ab6 tag=[7] trunks=[1,2] vlan_mode=[native-tagged]\n", ""},
			`{"data":[]}`:                      {"", "port eth0 of Open vSwitch is gone"},
		} {
			log := filepath.Join(t.TempDir(), "log")
			inPlace(t, "case \"$*\" in *list*) echo '"+answer+"' ;; *) echo \"$@\" >>"+log+" ;; esac")
			said := ""
			err := rep.Undo(t.Context(), sys, vf, func(format string, a ...any) { said += fmt.Sprintf(format, a...) })
			asked, _ := os.ReadFile(log)
			if err != nil || string(asked) != want.asked || !strings.HasPrefix(said, want.said) || (want.said == "") != (said == "") {
				t.Errorf("where it %s, and Open vSwitch answers %s, it asks %q, wanted %q, and says %q: %v", name, answer, asked, want.asked, said, err)
			}
		}
	}
}

// The interpreter is gone when the program is started, which is fs.ErrNotExist as a file's absence is.
func TestAProgramThatIsMissingIsNotTakenForARepresentorThatIsGone(t *testing.T) {
	rep := &Representor{Name: "eth0", Had: Port{OVS: &OVSPort{UUID: "f4c75ab6"}}}
	for name, sys := range map[string]fstest.MapFS{"is no interface any more": {}, "goes at this moment": switchTree("2147483647")} {
		for when, script := range map[string]string{"at first": "", "after an answer": "echo '{\"data\":[[[\"uuid\",\"f4c75ab6\"]]]}'; rm ${0%/*}/sh"} {
			inPlace(t, script)
			shell := filepath.Join(filepath.Dir(vsctl), "sh")
			if err := os.WriteFile(vsctl, []byte("#!"+shell+"\n"+script), 0o700); err != nil {
				t.Fatal(err)
			}
			if script != "" {
				if err := os.Symlink("/bin/sh", shell); err != nil {
					t.Fatal(err)
				}
			}
			err := rep.Undo(t.Context(), sys, node.ID{PCI: "0000:3b:00.0", VF: "1"}, t.Logf)
			if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNoRepresentor) || !strings.Contains(err.Error(), vsctl) {
				t.Errorf("where it %s, and ovs-vsctl is missing %s, it says %v", name, when, err)
			}
		}
	}
}
