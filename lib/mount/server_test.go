package mount

import (
	"fmt"
	"testing"
)

func TestAMountedServerIsKnownByItsAddress(t *testing.T) {
	const mountinfo = `22 1 0:21 / / rw,relatime shared:1 - nfs4 10.0.0.1:/root rw,vers=4.2,clientaddr=10.0.0.9,local_lock=none,addr=10.0.0.1
23 22 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw,size=1k
24 22 0:44 / /home rw shared:7 master:3 - nfs server:/home rw,mountaddr=fd00::7,addr=fd00::8
25 22 0:45 / /win rw - cifs //srv/share rw,addr=192.0.2.9
26 22 0:46 / /odd rw - nfs a:/b rw,addr=nonsense
27 22 0:47
`
	want := "[{/ 10.0.0.1} {/home fd00::8} {/win 192.0.2.9}]"
	if got := fmt.Sprint(servers(mountinfo)); got != want {
		t.Errorf("%s, wanted %s", got, want)
	}
}
