package loopback_test

import (
	"net"
	"os"
	"slices"
	"testing"
	"testing/fstest"

	"gresnet/lib/network/loopback"
)

// find returns the sockets that the kernel lists at an address.
func find(t *testing.T, protocol, address string) (found []loopback.Socket) {
	t.Helper()
	all, err := loopback.Sockets(os.DirFS("/proc"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(s loopback.Socket) bool { return s.Protocol != protocol || s.Address.String() != address })
}

func TestWhoListensOnTheLoopbackIsListedAndAClientIsNot(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if found := find(t, "tcp", server.Addr().String()); len(found) != 1 || found[0].UID != uint32(os.Getuid()) {
		t.Errorf("the server is %v", found)
	}
	if found := find(t, "tcp", client.LocalAddr().String()); len(found) != 0 {
		t.Errorf("the client is %v", found)
	}
}

func TestWhoTakesDatagramsOnTheLoopbackIsListedAndWhoSendsIsNot(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := net.Dial("udp", server.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if found := find(t, "udp", server.LocalAddr().String()); len(found) != 1 {
		t.Errorf("the server is %v", found)
	}
	if found := find(t, "udp", client.LocalAddr().String()); len(found) != 0 {
		t.Errorf("the client is %v", found)
	}
}

func TestAListenerAtAnAddressOfIPv6IsListedAndOneAtAllAddressesIsNot(t *testing.T) {
	const rest = " 00000000:00000000 00:00000000 00000000   103        0 9 1 0000000000000000 100 0 0 10 0\n"
	proc := fstest.MapFS{
		"net/tcp": {Data: []byte("  sl  local_address rem_address   st\n   0: 00000000:0016 00000000:0000 0A" + rest)},
		"net/tcp6": {Data: []byte("  sl  local_address                         remote_address                        st\n" +
			"   0: 00000000000000000000000001000000:0277 00000000000000000000000000000000:0000 0A" + rest +
			"   1: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A" + rest)},
	}
	all, err := loopback.Sockets(proc)
	if err != nil || len(all) != 1 || all[0].String() != "tcp [::1]:631" || all[0].UID != 103 {
		t.Errorf("%v, %v", all, err)
	}
}
