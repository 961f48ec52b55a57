package environment

import (
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/words/pkey"
)

// noPKey stands in GRESNET_PKEY for an HCA that is in all of its partitions.
const noPKey = "none"

// pkeys returns the P_Keys of the job's HCAs, as their ports have them; empty if none has one.
func pkeys(hcas []HCA) string {
	var all []string
	for _, h := range distinct(hcas) {
		i := slices.IndexFunc(h.Ports, func(p Port) bool { return p.PKey != nil })
		if i < 0 {
			all = append(all, noPKey)
		} else {
			all = append(all, h.Ports[i].PKey.PKey.String())
		}
	}
	if !slices.ContainsFunc(all, func(text string) bool { return text != noPKey }) {
		return ""
	}
	return strings.Join(all, ",")
}

// pkeyIndex returns the index at which all ports that are used have the job's P_Key, empty if there is
// none: one number for all is all that NCCL takes (ncclParamIbPkey).
func pkeyIndex(hcas []HCA) string {
	return onePKey(hcas, func(e pkey.Entry) string { return strconv.Itoa(e.Index) })
}

// partition returns the partition that all ports that are used are in for the job, empty if they are in
// several. UCX and Open MPI take it without the bit for full members.
func partition(hcas []HCA) string {
	return onePKey(hcas, func(e pkey.Entry) string { return e.PKey.Partition().String() })
}

// onePKey returns what all ports that are used have in common.
func onePKey(hcas []HCA, of func(pkey.Entry) string) (common string) {
	for _, h := range distinct(hcas) {
		for _, p := range h.used() {
			if p.PKey == nil || common != "" && of(*p.PKey) != common {
				return ""
			}
			common = of(*p.PKey)
		}
	}
	return common
}
