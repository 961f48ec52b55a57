package lease

import (
	"strings"

	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/hook"
	"gresnet/lib/lease/step"
	"gresnet/lib/words/config"
)

// hooks returns the step that runs the site's programs, if there are any. A job in the node's network has none:
// what they do there, nothing undoes.
func (t *taking) hooks(mode rdma.Mode, hcas []string) []step.Step {
	site := t.Host.Config.Hooks
	if site.Ready == "" && site.Leave == "" || t.access.Isolation == config.IsolateDevices {
		return nil
	}
	return []step.Step{&hook.Hook{
		Ready: site.Ready, Leave: site.Leave, Timeout: site.Timeout, Fault: site.Fault, Mode: mode,
		Env: append(source.Environment(t.job), "GRESNET_HCAS="+strings.Join(hcas, ",")),
	}}
}
