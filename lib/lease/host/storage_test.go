package host

import (
	"fmt"
	"testing"
	"testing/fstest"
)

func TestServersThatStandInFilesOfRootsAreKnownByTheirAddresses(t *testing.T) {
	const mounts = `22 1 0:21 / /mnt/beegfs rw,relatime shared:1 - beegfs beegfs_nodev rw,cfgFile=/etc/beegfs/beegfs-client.conf
23 22 0:5 / /gpfs/fs1 rw,relatime shared:2 - gpfs fs1 rw
24 22 0:6 / /weka rw,relatime - wekafs 10.5.0.1,backend-2,10.5.0.2/default rw,net=ib0
25 22 0:7 / /home rw - fuse.gpfs 10.9.0.1/x rw
`
	root := fstest.MapFS{
		"proc/fs/beegfs/1A-2B-n1/meta_nodes":    {Data: []byte("meta1 [ID: 1]\n   Root: <yes>\n   Connections: RDMA: 2 (10.1.0.5:8005); TCP: 1 (192.0.2.5:8005 [fallback route]);\n")},
		"proc/fs/beegfs/1A-2B-n1/storage_nodes": {Data: []byte("st1 [ID: 1]\n   Connections: TCP: 4 (10.1.0.6:8003);\nst2 [ID: 2]\n   Connections: <none>\n")},
		"proc/fs/beegfs/1A-2B-n1/config":        {Data: []byte("sysMgmtdHost = 10.7.7.7 (x)\n")},
		"var/mmfs/gen/mmsdrfs": {Data: []byte("%%9999%%:00_VERSION_LINE::1423:3:192::lc:10.6.6.6:\n" +
			"%%home%%:20_MEMBER_NODE::1:1:n1:172.24.14.193:n1.site:manager:X:::::n1.site:n1:1510:4.2.1.0:Linux:Q::::D::server::\n" +
			"%%home%%:20_MEMBER_NODE::2:2:n2:172.24.14.194:n2.site:client::::::n2.site:n2\n" +
			"%%home%%:20_MEMBER_NODE::3:3:n3:172.24.15.1:n3.site:client\n" +
			"%%home%%:20_MEMBER_NODE::4:4:n4:name:n4.site:client\n%%home%%:20_MEMBER_NODE\n")},
	}
	const want = "[{/weka 10.5.0.1} {/weka 10.5.0.2} {/mnt/beegfs 10.1.0.5} {/mnt/beegfs 192.0.2.5} {/mnt/beegfs 10.1.0.6} {/gpfs/fs1 172.24.14.193} {/gpfs/fs1 172.24.15.1}]"
	if got := fmt.Sprint(serversIn([]byte(mounts), root)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := fmt.Sprint(serversIn([]byte("25 22 0:7 / /home rw - nfs 10.0.0.1:/x rw,addr=10.0.0.1\n"), root)); got != "[{/home 10.0.0.1}]" {
		t.Errorf("a node without these file systems has %s", got)
	}
}
