package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// lines are those of a run with a pause that is cut and one that is not.
var lines = []Line{
	{"== alice: srun <1>", 60 * time.Second},
	{"rdma ibfake0       rdma ibfake0", 90 * time.Second},
	{"net  ib0 & more    dev  uverbs0 alice", 90 * time.Second},
	{"", 90*time.Second + 500*time.Millisecond},
	{"== done", 90*time.Second + 500*time.Millisecond},
}

// texts reads a picture as XML: what its text elements say, by their class.
func texts(t *testing.T, svg []byte) (said, classes []string, all string) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	depth := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return said, classes, all
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			all += e.Name.Local + " "
			if e.Name.Local == "text" || depth > 0 {
				depth++
			}
			if e.Name.Local == "text" {
				said = append(said, "")
				for _, a := range e.Attr {
					if a.Name.Local == "class" {
						classes = append(classes, a.Value)
					}
				}
			}
		case xml.EndElement:
			if depth > 0 {
				depth--
			}
		case xml.CharData:
			if depth > 0 {
				said[len(said)-1] += string(e)
			}
		}
	}
}

func TestThePictureHasEachLineAsItWas(t *testing.T) {
	said, _, elements := texts(t, draw("a demo", lines))
	want := []string{"a demo"}
	for _, l := range lines {
		want = append(want, l.Text)
	}
	if strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, wanted %q", said, want)
	}
	if regexp.MustCompile(`script|image|foreignObject|use`).MatchString(elements) {
		t.Errorf("it has other elements than those that draw: %s", elements)
	}
}

func TestALineAppearsWhenItCameAndALongPauseIsCut(t *testing.T) {
	svg := draw("", lines)
	_, classes, _ := texts(t, svg)
	if got := strings.Join(classes, " "); got != "title  t1500 t1500 t2000 t2000" {
		t.Errorf("the classes are %q", got)
	}
	for _, want := range []string{
		".t1500 { animation: t1500 11.00s step-end infinite }", "@keyframes t1500 { from { opacity: 0 } 13.64% { opacity: 1 } }",
		".t2000 { animation: t2000 11.00s step-end infinite }", "@keyframes t2000 { from { opacity: 0 } 18.18% { opacity: 1 } }",
	} {
		if strings.Count(string(svg), want) != 1 {
			t.Errorf("it does not say once %q", want)
		}
	}
}

func TestACommandsOutputIsRecordedWithWhatItComplainsOf(t *testing.T) {
	got, err := record([]string{"sh", "-c", "echo one; echo two >&2"}, io.Discard)
	if err != nil || len(got) != 2 || got[0].Text != "one" || got[1].Text != "two" || got[1].At < got[0].At {
		t.Errorf("%v: %v", err, got)
	}
	if _, err := record([]string{"false"}, io.Discard); err == nil {
		t.Error("a command that fails is no error")
	}
}

func TestATabLeadsToTheNextOfTheTerminalsColumns(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "\t|": "        |", "a\tb": "a       b", "1234567\t|": "1234567 |", "12345678\t|": "12345678        |", "é\t|": "é       |",
	} {
		if got := untabbed(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}
