package slurm

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Stamp is what a plugin says of itself to Slurm's loader.
type Stamp struct {
	Type    string // plugin_type: "spank", "auth/munge"
	Version Version
}

// Version is Slurm's SLURM_VERSION_NUMBER: major, minor and micro, a byte each.
type Version uint32

// String returns what of a version a SPANK plugin must share with Slurm: "24.11".
func (v Version) String() string { return fmt.Sprintf("%d.%02d", v>>16&0xff, v>>8&0xff) }

// Fits tells whether Slurm loads a SPANK plugin that was built for v: the micro
// version does not count (Slurm src/common/plugin.c:_verify_syms).
func (v Version) Fits(slurm Version) bool { return v>>8 == slurm>>8 }

var errNoStamp = errors.New("it is no Slurm plugin")

// ReadStamp reads the stamp from a plugin's file, without loading it.
func ReadStamp(root fs.FS, name string) (Stamp, error) {
	f, err := root.Open(strings.TrimPrefix(name, "/"))
	if err != nil {
		return Stamp{}, err
	}
	defer f.Close()
	file, is := f.(io.ReaderAt)
	if !is {
		return Stamp{}, errNoStamp
	}
	object, err := elf.NewFile(file)
	if err != nil {
		return Stamp{}, errNoStamp
	}
	symbols, err := object.DynamicSymbols()
	if err != nil {
		return Stamp{}, errNoStamp
	}
	var s Stamp
	for _, symbol := range symbols {
		switch symbol.Name {
		case "plugin_type":
			text, err := stampValue(object, symbol)
			if err != nil {
				return Stamp{}, err
			}
			s.Type = strings.TrimRight(string(text), "\x00")
		case "plugin_version":
			number, err := stampValue(object, symbol)
			if err != nil || len(number) != 4 {
				return Stamp{}, errNoStamp
			}
			s.Version = Version(object.ByteOrder.Uint32(number))
		}
	}
	if s.Type == "" || s.Version == 0 {
		return Stamp{}, errNoStamp
	}
	return s, nil
}

// stampValue returns what a variable has in the file.
func stampValue(object *elf.File, symbol elf.Symbol) ([]byte, error) {
	const most = 256
	if int(symbol.Section) >= len(object.Sections) || symbol.Size > most {
		return nil, errNoStamp
	}
	section := object.Sections[symbol.Section]
	if section.Type == elf.SHT_NOBITS || symbol.Value < section.Addr {
		return nil, errNoStamp
	}
	value := make([]byte, symbol.Size)
	if _, err := section.ReadAt(value, int64(symbol.Value-section.Addr)); err != nil {
		return nil, errNoStamp
	}
	return value, nil
}
