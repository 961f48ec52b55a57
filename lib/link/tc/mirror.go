package tc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Of linux/rtnetlink.h, linux/pkt_cls.h and linux/tc_act/tc_mirred.h, which x/sys/unix lacks.
const (
	actionHead      = 4 // sizeof(struct tcamsg)
	rootActions     = 1 // TCA_ACT_TAB
	rootFlags       = 2 // TCA_ROOT_FLAGS
	largeDump       = 1 // TCA_ACT_FLAG_LARGE_DUMP_ON
	actionKind      = 1 // TCA_ACT_KIND
	actionOptions   = 2 // TCA_ACT_OPTIONS
	mirredParms     = 2 // TCA_MIRRED_PARMS
	mirredSize      = 28
	mirredNumber    = 0 // where struct tc_mirred has them
	mirredInterface = 24
)

// RefuseMirrors refuses an interface through which an action, mirred, sends packets: of others' traffic filters, of
// shared blocks, or one that stands alone. The kernel takes the interface from the action when it leaves its
// namespace (act_mirred.c:mirred_device_event). A kernel without the kind has no such actions, and loads no module
// for the question (act_api.c:tc_dump_action).
func RefuseMirrors(r *netlink.Route, index int, name string) error {
	one := netlink.Append(nil, 1, netlink.AppendText(nil, actionKind, "mirred"))
	request := netlink.Append(make([]byte, actionHead), rootActions|unix.NLA_F_NESTED, one)
	flag := native.AppendUint32(native.AppendUint32(nil, largeDump), largeDump) // struct nla_bitfield32
	request = netlink.Append(request, rootFlags, flag)
	// The kernel answers by the kind of the question.
	answers, err := r.Send(unix.RTM_GETACTION, unix.NLM_F_DUMP, unix.RTM_GETACTION, request)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the actions that send packets through %s: %w", name, err)
	}
	for _, a := range answers {
		outer, err := netlink.Behind(a, actionHead, "traffic control action")
		if err != nil {
			return err
		}
		actions, err := outer.Nested(rootActions)
		if err != nil {
			return err
		}
		for a := range actions.All() {
			list, err := netlink.Parse(a.Value)
			if err != nil {
				return err
			}
			inner, err := list.Nested(actionOptions)
			if err != nil {
				return err
			}
			m := inner.Value(mirredParms)
			if len(m) >= mirredSize && native.Uint32(m[mirredInterface:]) == uint32(index) {
				return fmt.Errorf("the traffic control action mirred %d sends packets through %s, to which gresnet cannot return it", native.Uint32(m[mirredNumber:]), name)
			}
		}
	}
	return nil
}
