package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the plot, in pixels.
const (
	plotLabel = 230 // where the cases' names end
	plotWidth = 620
	plotRow   = 26
	plotTop   = 64
)

// mark is how a series is drawn: told apart by its form as well as by its colour
// (of Okabe and Ito's palette, which the colour-blind can tell apart).
type mark struct {
	tool, way, name, colour string
	path                    string // around 0,0
}

func marks() []mark {
	const circle, square, up, down = "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z", "M-4.5,-4.5h9v9h-9z", "M-5,4.5h10l-5,-9z", "M-5,-4.5h10l-5,9z"
	return []mark{
		{"gresnet", "in", "gresnet-prolog", "#0072B2", circle},
		{"gresnet", "out", "gresnet-epilog", "#D55E00", square},
		{"script", "in", "script, in", "#56B4E9", up},
		{"script", "out", "script, out", "#E69F00", down},
	}
}

// plot draws the tools' medians in floors, a row for each case, on
// a logarithmic scale.
func (r results) plot() string {
	var b strings.Builder
	limit := r.highest()
	x := func(ratio float64) float64 {
		return plotLabel + math.Log(math.Max(ratio, 0.8)/0.8)/math.Log(limit/0.8)*plotWidth
	}
	height := plotTop + len(r.Cases)*plotRow + 34
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", plotLabel+plotWidth+40, height)
	fmt.Fprintf(&b, "<title>Time that gresnet and a shell script take, in multiples of what the kernel takes</title>\n")
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i, m := range marks() {
		left := plotLabel + i*150
		fmt.Fprintf(&b, `<path transform="translate(%d,20)" d="%s" fill="%s"/><text x="%d" y="25">%s</text>`+"\n", left, m.path, m.colour, left+12, m.name)
	}
	r.scale(&b, x, limit, height)
	for row, m := range r.Cases {
		y := plotTop + row*plotRow + plotRow/2
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, plotLabel-12, y+4, html.EscapeString(m.Name))
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%d" y2="%[3]d" stroke="#ddd"/>`+"\n", plotLabel, plotLabel+plotWidth, y)
		for _, k := range marks() {
			if ratio, there := m.ratio(k.tool, k.way); there {
				fmt.Fprintf(&b, `<path transform="translate(%.1f,%d)" d="%s" fill="%s"><title>%s, %s: %.2f</title></path>`+"\n", x(ratio), y, k.path, k.colour, html.EscapeString(m.Name), k.name, ratio)
			}
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// scale draws the lines of the scale that fit.
func (r results) scale(b *strings.Builder, x func(float64) float64, limit float64, height int) {
	for _, tick := range []float64{1, 1.15, 1.5, 2, 3, 5, 10, 20, 50, 100} {
		if tick > limit {
			break
		}
		style, label := `stroke="#bbb"`, fmt.Sprintf("%g×", tick)
		switch tick {
		case 1:
			style, label = `stroke="black" stroke-width="2"`, "floor"
		case 1.15:
			style, label = `stroke="#777" stroke-dasharray="4 3"`, ""
		}
		fmt.Fprintf(b, `<line x1="%.1[1]f" x2="%.1[1]f" y1="%[2]d" y2="%[3]d" %[4]s/><text x="%.1[1]f" y="%[5]d" text-anchor="middle">%[6]s</text>`+"\n",
			x(tick), plotTop-8, height-28, style, height-10, label)
	}
}

// highest returns where the scale ends.
func (r results) highest() float64 {
	limit := 2.0
	for _, m := range r.Cases {
		for _, k := range marks() {
			if ratio, there := m.ratio(k.tool, k.way); there {
				limit = max(limit, ratio*1.1)
			}
		}
	}
	return limit
}
