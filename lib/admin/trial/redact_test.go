package trial

import (
	"regexp"
	"strings"
	"testing"

	"gresnet/lib/hca/report"
)

func TestAReportOfATrialHasNoAddressGUIDSerialNumberOrHostName(t *testing.T) {
	secret := regexp.MustCompile(`(?i)02:00:00|fe80|10\.1\.0|c903|MT2047|b8599f|n17`)
	for _, line := range []string{
		`- link {"address":"02:00:00:00:00:01","ifname":"roce0","mtu":1500}`,
		`+ address of ib0 {"local":"fe80::2:c903:ab:cdef","prefixlen":64}`,
		`- address of roce0 {"local":"10.1.0.7","prefixlen":24,"label":"roce0"}`,
		`- route {"dst":"10.1.0.0/24","gateway":"10.1.0.1"}`,
		`- gid of /sys/class/infiniband/mlx5_0/ports/1 fe80:0000:0000:0000:0202:c903:00ab:cdef`,
		`rdma device {"node_guid":"0002:c903:00ab:cdef","sys_image_guid":"0x0002c90300abcdef"}`,
		`claim mlx5_0 (0002:c903:00ab:cdef@0000:0c:00.0): busy`,
		`Vendor SN : MT2047X12345`,
		`"board.serial_number":"MT2047X12345"`,
		`serial_number: MT2047X12345`,
		`"phys_port_id":"b8599f0300abcdef"`,
		`return mlx5_0 of n17 to the node: device busy`,
	} {
		found := report.Trial{Unread: []string{line}, Restless: []string{line}, HCAs: []report.Tried{{Name: "mlx5_0", Differences: []string{line}, Faults: []string{line}, Refused: line}}}
		var out strings.Builder
		if err := report.Print(&out, Redacted(found, "n17")); err != nil {
			t.Fatal(err)
		}
		if found := secret.FindString(out.String()); found != "" {
			t.Errorf("%s: %q is in it:\n%s", line, found, out.String())
		}
		if !strings.Contains(line, "serial") && !strings.Contains(line, "SN") && len(redact(line)) < 15 {
			t.Errorf("%s: nothing is left: %s", line, redact(line))
		}
	}
	for _, line := range []string{`driver of roce0 Current hardware settings: RX: 128`, `"mtu":1400`, "node of mlx5_0 uverbs Dcrw-r----- 0:0", "inside: roce0 has no carrier"} {
		if got := redact(line); got != line {
			t.Errorf("%s became %s", line, got)
		}
	}
}
