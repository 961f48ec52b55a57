// Package stamptest makes shared objects that name their Slurm's version. It is for tests only.
package stamptest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing/fstest"
)

// Plugin returns a shared object that has of a Slurm plugin what its loader asks
// for: plugin_type and plugin_version.
func Plugin(kind string, version uint32) *fstest.MapFile {
	value := append([]byte(kind), 0)
	names := []byte("\x00plugin_type\x00plugin_version\x00")
	const rodata, dynsym, dynstr = 1, 2, 3 // sections
	symbols := []elf.Sym64{
		{},
		{Name: 1, Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_OBJECT), Shndx: rodata, Value: 0x1000, Size: uint64(len(value))},
		{Name: 13, Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_OBJECT), Shndx: rodata, Value: 0x1000 + uint64(len(value)), Size: 4},
	}
	var parts [dynstr + 1]bytes.Buffer
	parts[rodata].Write(binary.LittleEndian.AppendUint32(value, version))
	must(binary.Write(&parts[dynsym], binary.LittleEndian, symbols))
	parts[dynstr].Write(names)

	header := elf.Header64{
		Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_DYN),
		Machine: uint16(elf.EM_X86_64),
		Version: uint32(elf.EV_CURRENT),
		Ehsize:  64, Shentsize: 64, Shnum: dynstr + 1, Shstrndx: dynstr,
	}
	sections := [dynstr + 1]elf.Section64{
		{},
		{Type: uint32(elf.SHT_PROGBITS), Addr: 0x1000},
		{Type: uint32(elf.SHT_DYNSYM), Link: dynstr, Info: 1, Entsize: 24},
		{Type: uint32(elf.SHT_STRTAB)},
	}
	header.Shoff = uint64(binary.Size(header))
	offset := header.Shoff + uint64(binary.Size(sections))
	for i := rodata; i <= dynstr; i++ {
		sections[i].Off, sections[i].Size = offset, uint64(parts[i].Len())
		offset += sections[i].Size
	}
	var file bytes.Buffer
	must(binary.Write(&file, binary.LittleEndian, header))
	must(binary.Write(&file, binary.LittleEndian, sections))
	for i := range parts {
		file.Write(parts[i].Bytes())
	}
	return &fstest.MapFile{Data: file.Bytes(), Mode: 0o644}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
