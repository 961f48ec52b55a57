package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/test/fusetest"
)

func TestAMountedServerIsKnownByItsAddress(t *testing.T) {
	const mountinfo = `22 1 0:21 / / rw,relatime shared:1 - nfs4 10.0.0.1:/root rw,vers=4.2,clientaddr=10.0.0.9,local_lock=none,addr=10.0.0.1
23 22 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw,size=1k
24 22 0:44 / /home\040of\134us rw shared:7 master:3 - nfs server:/home rw,mountaddr=fd00::7,addr=fd00::8
25 22 0:45 / /win rw - cifs //srv/share rw,addr=192.0.2.9
26 22 0:46 / /odd rw - nfs a:/b rw,addr=nonsense
27 22 0:47
28 22 0:48 / /scratch rw,relatime shared:9 - lustre 10.0.0.5@o2ib,192.0.2.5@tcp1:10.0.0.6@o2ib:/fs rw,checksum,flock
29 22 0:49 / /work rw - lustre 10.0.0.7@tcp:/work/sub:dir rw,addr=10.0.0.8
`
	want := `[{/ 10.0.0.1} {/home of\us fd00::8} {/win 192.0.2.9} {/scratch 10.0.0.5} {/scratch 192.0.2.5} {/scratch 10.0.0.6} {/work 10.0.0.8} {/work 10.0.0.7}]`
	if got := fmt.Sprint(serversIn([]byte(mountinfo), fstest.MapFS{})); got != want {
		t.Errorf("%s, wanted %s", got, want)
	}
}

// Only the kernel's own blank ends a field; a user chooses all other bytes of a FUSE mount's
// source, subtype and mount point.
func TestAUsersMountIsNoServer(t *testing.T) {
	const nfs = "22 1 0:21 / /home rw - nfs4 10.0.0.1:/root rw,addr=10.0.0.1\n"
	for _, blank := range []string{"\u00a0", "\u0085", "\u2003", "\v", "\f", "\r"} {
		for _, line := range []string{
			"28 22 0:48 / /fuse rw - fuse x~rw,addr=10.2.0.9~ rw,user_id=1000\n",
			"28 22 0:48 / /fuse~-~nfs4~x~rw,addr=10.2.0.9 rw - fuse x rw,user_id=1000\n",
			"28 22 0:48 / /fuse rw - fuse.nfs4 x~- nfs4~x~rw,addr=10.2.0.9\n",
			"28 22 0:48 / /fuse rw - fuse.nfs4 x rw,addr=10.2.0.9\n",
			"28 22 0:48 / /fuse rw - fuse x rw,addr=10.2.0.9\n",
			// No mount point is too long for the kernel: a folder above it may move.
			"28 22 0:48 / /" + strings.Repeat("x", 100<<10) + " rw - fuse x rw,user_id=1000\n",
		} {
			line = strings.ReplaceAll(line, "~", blank)
			if got := fmt.Sprint(serversIn([]byte(line+nfs), fstest.MapFS{})); got != "[{/home 10.0.0.1}]" {
				t.Errorf("with %.200q: %s", line, got)
			}
		}
	}
}

func TestTheKernelsLineOfAForgedMountIsNoServer(t *testing.T) {
	fusetest.Mount(t, "x\u00a0rw,addr=10.2.0.9\u00a0")
	list, err := mountedServers()
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(list, func(s server) bool { return s.Addr.String() == "10.2.0.9" }) {
		t.Errorf("a user's mount is a server: %v", list)
	}
}

func TestTheKernelsListTellsWhetherThereCanBeANetworkFileSystem(t *testing.T) {
	const others = "nodev\tsysfs\n\text4\nnodev\tfuse\nnodev\tnfsd\nnodev\trpc_pipefs\nnodev\t9p\n"
	if hasNetwork([]byte(others)) {
		t.Error("there is one among others")
	}
	for _, name := range []string{"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "wekafs", "beegfs", "gpfs"} {
		for _, line := range []string{"nodev\t" + name, "\t" + name} {
			if !hasNetwork([]byte(others+line+"\n\tvfat\n")) || !hasNetwork([]byte(line)) {
				t.Errorf("%q is not found", line)
			}
		}
	}
}

func BenchmarkServersBesideManyOtherMounts(b *testing.B) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "%d 22 0:48 / /run/user/%d/doc rw,nosuid,nodev,relatime shared:%d - fuse.portal portal rw,user_id=%d,group_id=0\n", i, i, i, i)
	}
	for b.Loop() {
		serversIn([]byte(text.String()), fstest.MapFS{})
	}
}
