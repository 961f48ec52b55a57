package ports

// SetHeader says how many bytes a packet from a kind of interfaces has before the IP header.
func SetHeader(kind string, bytes uint32) { headers[kind] = bytes }
