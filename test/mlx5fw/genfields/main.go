// genfields writes fields.go: where each field lies that this program names.
//
//	go run ./genfields LINUX/include/linux/mlx5/mlx5_ifc.h | gofmt >fields.go
//
// The kernel's header describes each command and register as a struct of bits. A name in this
// program's sources is the path from such a struct to one of its fields, as in
// "create_cq_in.cq_context.log_cq_size"; only these come into the table.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// A member of a struct: a plain field has no inner layout.
type member struct {
	name       string
	off, bits  int
	layoutName string
	each       int // of an array: the bits of one element
}

type layout struct {
	members []member
	bits    int
}

var layouts = map[string]*layout{}

func main() {
	log.SetFlags(0)
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	parse(string(text))
	fmt.Print("// Made by genfields from the kernel's mlx5_ifc.h.\n\npackage main\n\nvar fields = map[string]field{\n")
	for _, path := range named() {
		off, bits, err := find(path)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("\t%q: {%#x, %d},\n", path, off, bits)
	}
	fmt.Println("}")
}

// named collects the paths that the sources have between quotes.
func named() []string {
	quoted := regexp.MustCompile(`"([a-z0-9_]+(\.[a-zA-Z0-9_]+)+)"`)
	seen := map[string]bool{}
	files, _ := filepath.Glob("*.go")
	for _, file := range files {
		if file == "fields.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		for _, match := range quoted.FindAllStringSubmatch(string(text), -1) {
			if first, _, _ := strings.Cut(match[1], "."); layouts[first] != nil {
				seen[match[1]] = true
			} else {
				log.Printf("no struct for %s in %s", match[1], file)
			}
		}
	}
	var paths []string
	for path := range seen {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	return paths
}

func find(path string) (off, bits int, err error) {
	parts := strings.Split(path, ".")
	at := layouts[parts[0]]
next:
	for i, part := range parts[1:] {
		for _, m := range at.members {
			if m.name != part {
				continue
			}
			off, bits = off+m.off, m.bits
			if i == len(parts)-2 {
				return off, bits, nil
			}
			if at = layouts[m.layoutName]; at == nil {
				return 0, 0, fmt.Errorf("%s: %s has no fields", path, part)
			}
			continue next
		}
		return 0, 0, fmt.Errorf("%s: no field %s", path, part)
	}
	return off, bits, nil
}

var (
	comment = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	opening = regexp.MustCompile(`^(struct|union) (mlx5_ifc_(\w+)_bits )?\{$`)
	plain   = regexp.MustCompile(`^u8\s+(\w+)((?:\[[^\]]*\])*);$`)
	nested  = regexp.MustCompile(`^(?:struct|union)\s+mlx5_ifc_(\w+)_bits\s+(\w+)((?:\[[^\]]*\])*);$`)
	closing = regexp.MustCompile(`^\}\s*(\w*)(?:\[[^\]]*\])?;$`)
	number  = regexp.MustCompile(`\[([^\]]*)\]`)
)

// parse reads the whole header, whose structs come after those that they contain; what is
// declared later is known by name and only needed once all has been read, but for its size.
func parse(text string) {
	lines := strings.Split(comment.ReplaceAllString(text, ""), "\n")
	for pass := 0; pass < 3; pass++ { // sizes of what comes later
		for i := 0; i < len(lines); i++ {
			line := strings.TrimSpace(lines[i])
			match := opening.FindStringSubmatch(line)
			if match == nil || match[3] == "" {
				continue
			}
			var l layout
			i, _ = body(lines, i+1, match[1] == "union", &l)
			layouts[match[3]] = &l
		}
	}
}

func body(lines []string, i int, union bool, l *layout) (int, string) {
	at := 0
	add := func(m member, total int) {
		m.off = at
		l.members = append(l.members, m)
		if union {
			l.bits = max(l.bits, total)
			return
		}
		at += total
		l.bits = at
	}
	for ; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if m := closing.FindStringSubmatch(line); m != nil {
			return i, m[1]
		}
		if m := opening.FindStringSubmatch(line); m != nil { // without a name of its own
			var inner layout
			var name string
			i, name = body(lines, i+1, m[1] == "union", &inner)
			key := fmt.Sprintf("%p", &inner)
			layouts[key] = &inner
			if name == "" { // its members are this struct's
				for _, each := range inner.members {
					each.off += at
					l.members = append(l.members, each)
				}
				if union {
					l.bits = max(l.bits, inner.bits)
				} else {
					at += inner.bits
					l.bits = at
				}
				continue
			}
			add(member{name: name, bits: inner.bits, layoutName: key}, inner.bits)
			continue
		}
		if m := plain.FindStringSubmatch(line); m != nil {
			total := product(m[2])
			add(member{name: m[1], bits: total}, total)
		} else if m := nested.FindStringSubmatch(line); m != nil {
			each := 0
			if inner := layouts[m[1]]; inner != nil {
				each = inner.bits
			}
			total := each
			if m[3] != "" {
				total *= product(m[3])
			}
			add(member{name: m[2], bits: total, layoutName: m[1], each: each}, total)
		}
	}
	return i, ""
}

func product(dimensions string) int {
	total := 1
	for _, m := range number.FindAllStringSubmatch(dimensions, -1) {
		n, err := strconv.ParseInt(strings.TrimSpace(m[1]), 0, 64)
		if err != nil { // by a constant's name, or open at the end
			n = 0
			if strings.Contains(m[1], "MLX5_") {
				log.Printf("unknown size %s", m[1])
			}
		}
		total *= int(n)
	}
	return total
}
