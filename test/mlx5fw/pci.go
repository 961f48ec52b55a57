package main

import "encoding/binary"

// The PCI side of a ConnectX: one BAR, which has the initialization segment in its first
// pages, MSI-X's table and its pending bits in the next two, and then the UARs.
const (
	vendorID    = 0x15b3
	connectX6Dx = 0x101d
	barSize     = 32 << 20
	msixTable   = 0x4000
	msixPending = 0x5000
	msixVectors = 16
	firstUAR    = 16 // pages of 4 KiB
)

// newConfig returns the configuration space of a function with that device id.
func newConfig(deviceID uint16, serial uint64) []byte {
	c := make([]byte, 4096)
	le := binary.LittleEndian
	le.PutUint16(c[0x00:], vendorID)
	le.PutUint16(c[0x02:], deviceID)
	le.PutUint16(c[0x06:], 0x0010)         // has capabilities
	c[0x0a], c[0x0b] = 0x00, 0x02          // class: Ethernet controller
	le.PutUint32(c[0x10:], 0x0c)           // BAR 0: memory, 64 bits, prefetchable
	le.PutUint16(c[0x2c:], vendorID)       // subsystem
	le.PutUint16(c[0x2e:], 0x0008)         //
	c[0x34] = 0x60                         // first capability
	c[0x3d] = 1                            // INTA
	express := c[0x60:]                    // PCI Express, version 2, 60 bytes
	express[0], express[1] = 0x10, 0x9c    //
	le.PutUint16(express[2:], 0x0002)      // an endpoint
	le.PutUint32(express[4:], 0x10008fe2)  // FLR, payload of 512
	le.PutUint16(express[8:], 0x2930)      // device control
	le.PutUint32(express[12:], 0x00436103) // link: 8 GT/s, x16
	le.PutUint16(express[18:], 0x1103)     // link status, the same
	le.PutUint32(express[36:], 0x0000001f) // completion timeouts
	le.PutUint32(express[44:], 0x0000000e) // speeds
	msix := c[0x9c:]
	msix[0], msix[1] = 0x11, 0x40
	le.PutUint16(msix[2:], msixVectors-1)
	le.PutUint32(msix[4:], msixTable)
	le.PutUint32(msix[8:], msixPending)
	power := c[0x40:]
	power[0], power[1] = 0x01, 0
	le.PutUint16(power[2:], 0x0003)
	le.PutUint16(power[4:], 0x0008) // no soft reset
	extended := c[0x100:]           // device serial number
	le.PutUint32(extended, 0x00010003)
	le.PutUint64(extended[4:], serial)
	return c
}
