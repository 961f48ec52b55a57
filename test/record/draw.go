package main

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Sizes, in pixels.
const (
	charWidth  = 8.0 // of a font of 13.3
	lineHeight = 18
	margin     = 16
	bar        = 34 // the window's
)

const (
	// longest is how long a pause is shown. A machine without KVM takes seconds to start a job.
	longest = 1500 * time.Millisecond
	// stays is how long the last line is shown before all begins again.
	stays = 9 * time.Second
)

// colors are those of words at the beginning of a line or of a column, dark on light and light on
// dark alike.
var colors = []struct {
	pattern *regexp.Regexp
	class   string
}{
	{regexp.MustCompile(`^== .*$`), "say"},
	{regexp.MustCompile(`THE NODE BEFORE|INSIDE THE JOB|THE NODE AFTER`), "head"},
	{regexp.MustCompile(`\b(rdma)  ?\w`), "rdma"},
	{regexp.MustCompile(`\b(net)  ?\w`), "net"},
	{regexp.MustCompile(`\b(dev)  ?\w`), "dev"},
	{regexp.MustCompile(`\balice\b`), "user"},
}

const style = `
text { font: 13.3px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace; fill: #d6deeb; white-space: pre }
.title { fill: #8b98a9 }
.say { fill: #7fdbca }
.head { fill: #ffffff; font-weight: bold }
.rdma { fill: #82aaff }
.net { fill: #addb67 }
.dev { fill: #ffcb6b }
.user { fill: #f78c6c }
`

// draw draws lines in a terminal's window.
func draw(title string, lines []Line) []byte {
	times := shown(lines)
	all := times[len(times)-1] + stays
	widest := utf8.RuneCountInString(title)
	for _, l := range lines {
		widest = max(widest, utf8.RuneCountInString(l.Text))
	}
	width, height := 2*margin+int(float64(widest)*charWidth), bar+len(lines)*lineHeight+margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s", html.EscapeString(title), style)
	keyframes(&b, times, all)
	b.WriteString("</style>\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#1d2433"/>`+"\n", width, height)
	for i, color := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="17" r="5" fill="%s"/>`+"\n", margin+6+i*18, color)
	}
	fmt.Fprintf(&b, `<text class="title" x="%d" y="22" text-anchor="middle">%s</text>`+"\n", width/2, html.EscapeString(title))
	for i, l := range lines {
		// Renderers that do not know white-space know xml:space.
		fmt.Fprintf(&b, `<text xml:space="preserve" class="%s" x="%d" y="%d">%s</text>`+"\n",
			moment(times, i), margin, bar+(i+1)*lineHeight-4, colored(l.Text))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// shown is when each line is shown: pauses are cut, and the first line is there at once.
func shown(lines []Line) []time.Duration {
	times := make([]time.Duration, len(lines))
	for i := 1; i < len(lines); i++ {
		times[i] = times[i-1] + min(lines[i].At-lines[i-1].At, longest).Round(10*time.Millisecond)
	}
	return times
}

// moment returns the class of lines that appear together; none if they are there from the beginning.
func moment(times []time.Duration, i int) string {
	if times[i] == 0 {
		return ""
	}
	return fmt.Sprintf("t%d", times[i].Milliseconds())
}

// keyframes hides each line until its moment, again and again. What comes at one moment shares them.
func keyframes(b *bytes.Buffer, times []time.Duration, all time.Duration) {
	last := ""
	for i, at := range times {
		name := moment(times, i)
		if name == "" || name == last {
			continue
		}
		last = name
		share := 100 * float64(at) / float64(all)
		fmt.Fprintf(b, ".%s { animation: %[1]s %.2fs step-end infinite }\n", name, all.Seconds())
		fmt.Fprintf(b, "@keyframes %s { from { opacity: 0 } %.2f%% { opacity: 1 } }\n", name, share)
	}
}

// colored returns a line with its words in their colors.
func colored(text string) string {
	var b strings.Builder
	for text != "" {
		at, end, class := len(text), len(text), ""
		for _, c := range colors {
			m := c.pattern.FindStringSubmatchIndex(text)
			if m == nil {
				continue
			}
			first, last := m[len(m)-2], m[len(m)-1] // the group, if there is one
			if first < at {
				at, end, class = first, last, c.class
			}
		}
		b.WriteString(html.EscapeString(text[:at]))
		if class == "" {
			break
		}
		fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(text[at:end]))
		text = text[end:]
	}
	return b.String()
}
