package bpf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
)

// Layout is what a map has: one key and one value of it, as they lie in memory, by their sizes.
type Layout struct {
	Kind       uint32 // BPF_MAP_TYPE_...
	Key, Value uint32
	Entries    uint32
	Flags      uint32
}

// Map is a map that programs of an object file use.
type Map struct{ object }

// MakeMap makes a map.
func MakeMap(l Layout) (Map, error) {
	m, err := call(unix.BPF_MAP_CREATE, &struct {
		kind, key, value, entries, flags, inner, node uint32
		name                                          name
	}{kind: l.Kind, key: l.Key, value: l.Value, entries: l.Entries, flags: l.Flags, name: gresnet()})
	if err != nil {
		return Map{}, fmt.Errorf("make a map: %w", err)
	}
	return Map{m}, nil
}

// OpenMap opens the map that is pinned under a path.
func OpenMap(path string) (Map, error) {
	m, err := openPin(path)
	return Map{m}, err
}

// Pin keeps a map under a path of a BPF file system.
func (m Map) Pin(path string) error { return m.pin(path) }

// Put writes an entry of a map.
func Put[K, V any](m Map, k K, v V) error { return put(m.object, k, v) }

// Get reads an entry of a map. It returns ENOENT if there is none.
func Get[K, V any](m Map, k K) (V, error) { return get[K, V](m.object, k) }

// Delete removes an entry of a map. It returns ENOENT if there is none.
func Delete[K any](m Map, k K) error { return remove(m.object, k) }

// Keys returns the keys of a map. If another process deletes the key at which Keys is, the kernel begins again with the
// first one (kernel/bpf/hashtab.c:htab_map_get_next_key): Keys returns each key once.
func Keys[K comparable](m Map) (list []K, err error) {
	var last *K
	seen := map[K]bool{}
	for {
		k, err := next(m.object, last)
		if err == unix.ENOENT {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list a map: %w", err)
		}
		if last = &k; !seen[k] {
			list, seen[k] = append(list, k), true
		}
	}
}

// Filter is a program for a traffic filter.
type Filter struct{ object }

// OpenFilter opens the program that is pinned under a path.
func OpenFilter(path string) (Filter, error) {
	p, err := openPin(path)
	return Filter{p}, err
}

// Pin keeps a program under a path of a BPF file system.
func (f Filter) Pin(path string) error { return f.pin(path) }

// FD returns the descriptor of a program.
func (f Filter) FD() int { return int(f.object) }

// ID returns the number by which the kernel knows a program.
func (f Filter) ID() (int, error) {
	var info struct{ kind, id uint32 } // the beginning of struct bpf_prog_info
	_, err := call(unix.BPF_OBJ_GET_INFO_BY_FD, &struct {
		fd, size uint32
		info     unsafe.Pointer
	}{uint32(f.object), uint32(unsafe.Sizeof(info)), unsafe.Pointer(&info)})
	if err != nil {
		return 0, fmt.Errorf("ask for a program's number: %w", err)
	}
	return int(info.id), nil
}

// License is what the kernel asks of programs that find routes.
const License = "Dual BSD/GPL"

// sectionPrefix begins the names of an object file's sections that have a program.
const sectionPrefix = "tc/"

// LoadFilters loads the programs of an object file that clang made. maps has the maps that they use, by name.
func LoadFilters(image []byte, maps map[string]Map) (all map[string]Filter, err error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, fmt.Errorf("read an object file: %w", err)
	}
	symbols, err := file.Symbols()
	if err != nil {
		return nil, fmt.Errorf("read an object file: %w", err)
	}
	all = map[string]Filter{}
	defer func() {
		if err != nil {
			for _, f := range all {
				f.Close()
			}
		}
	}()
	for _, s := range file.Sections {
		name, is := strings.CutPrefix(s.Name, sectionPrefix)
		if !is {
			continue
		}
		code, err := linked(file, s, symbols, maps)
		if err != nil {
			return nil, fmt.Errorf("link the program %s: %w", name, err)
		}
		p, err := loadAs(unix.BPF_PROG_TYPE_SCHED_CLS, code, License)
		if err != nil {
			return nil, hint.With(fmt.Errorf("load the program %s: %w", name, err), "GN863 the kernel must be 5.10 or later, with CONFIG_BPF_SYSCALL")
		}
		all[name] = Filter{p}
	}
	return all, nil
}

// linked returns the program of a section, in which maps have the descriptors of ours.
func linked(file *elf.File, s *elf.Section, symbols []elf.Symbol, maps map[string]Map) ([]instruction, error) {
	text, err := s.Data()
	if err != nil {
		return nil, err
	}
	code := make([]instruction, len(text)/int(unsafe.Sizeof(instruction{})))
	copy(rawOf(code), text)
	links := file.Section(".rel" + s.Name)
	if links == nil {
		return code, nil
	}
	text, err = links.Data()
	if err != nil {
		return nil, err
	}
	for ; len(text) >= 16; text = text[16:] {
		at, symbol := binary.LittleEndian.Uint64(text)/8, binary.LittleEndian.Uint32(text[12:])
		if symbol == 0 || int(symbol) > len(symbols) || at >= uint64(len(code)) {
			return nil, fmt.Errorf("the file's links are damaged")
		}
		name := symbols[symbol-1].Name
		m, known := maps[name]
		if !known {
			return nil, fmt.Errorf("no map is called %s", name)
		}
		code[at].registers |= unix.BPF_PSEUDO_MAP_FD << 4
		code[at].immediate = int32(m.object)
	}
	return code, nil
}

// rawOf returns the memory of instructions, which lie there as in a file.
func rawOf(code []instruction) []byte {
	if len(code) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&code[0])), len(code)*int(unsafe.Sizeof(code[0])))
}

// Attached counts the programs that an interface has at a hook of tcx, which all come before traffic filters. Kernels
// before 6.6 have none.
func Attached(index int, hook uint32) (int, error) {
	query := struct {
		target, attach, flags, attachFlags uint32
		ids                                uint64
		count, _                           uint32
	}{target: uint32(index), attach: hook}
	if _, err := call(unix.BPF_PROG_QUERY, &query); err != nil && err != unix.EINVAL {
		return 0, fmt.Errorf("ask which programs interface %d has: %w", index, err)
	}
	return int(query.count), nil
}
