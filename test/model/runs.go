package main

// run is one of a model's configurations. The defines say how much there is of everything.
type run struct {
	name    string
	model   string
	defines []string
	// mutation says that the name is that of an invariant which is left out, so spin must find a fault.
	mutation bool
}

// runs are all that `make model` runs.
var runs = []run{
	{name: "requeue", model: "lease", defines: []string{"RUNS=2", "HANGS=1", "UNWRITTEN=1"}},
	{name: "cleanup", model: "lease", defines: []string{"CLEANUPS=1", "HANGS=1", "UNWRITTEN=1", "KILLS=2"}},
	{name: "cleanup-requeue", model: "lease", defines: []string{"RUNS=2", "CLEANUPS=1"}},
	{name: "two-hcas", model: "lease", defines: []string{"HCAS=2", "WANTS=2", "HANGS=2", "UNWRITTEN=1"}},
	{name: "release", model: "lease", defines: []string{"RELEASES=1", "HANGS=1", "CLEANUPS=1", "UNWRITTEN=1"}},
	{name: "blot", model: "lease", defines: []string{"HCAS=2", "WANTS=2", "BLOTS=1", "HANGS=1", "CLEANUPS=1"}},
	{name: "reboot", model: "lease", defines: []string{"RUNS=2", "REBOOTS=1"}},
	{name: "slots", model: "slots", defines: []string{"KILLS=2", "FAILS=1"}},
	{name: "slots-release", model: "slots", defines: []string{"KILLS=2", "REMOVALS=1"}},

	without("lease", "ENTRY_BEFORE_STEP", "OTHERS=0"),
	without("lease", "ASK_THE_WORLD", "OTHERS=0"),
	without("lease", "MARK_AFTER_UNDO", "OTHERS=0"),
	without("lease", "NAMESPACE_AFTER_HCAS", "OTHERS=0", "HANGS=1"),
	without("lease", "MOVER_HOLDS_LOCK", "OTHERS=0"),
	without("lease", "FREE_WHAT_IS_HOME", "HANGS=1"),
	without("lease", "NODE_LOCK", "KILLS=0"),
	without("lease", "CLAIM_IS_JOURNALED_FIRST", "OTHERS=0"),
	without("lease", "MARKED_BEFORE_FREED", "UNWRITTEN=1", "CLEANUPS=1"),
	without("lease", "OTHERS_ARE_SPARED", "HCAS=2", "WANTS=2", "BLOTS=1", "HANGS=1", "CLEANUPS=1", "KILLS=0"),
	without("lease", "JOB_LOCK", "OTHERS=0", "CLEANUPS=1", "KILLS=0"),
	without("lease", "LATER_RUN_IS_LEFT_ALONE", "OTHERS=0", "RUNS=2", "KILLS=0"),
	without("lease", "CLEANUP_SPARES_WHO_RUNS", "OTHERS=0", "CLEANUPS=1", "KILLS=0"),
	without("lease", "CLEANUP_SPARES_WHO_MAY_START", "OTHERS=0", "CLEANUPS=1", "KILLS=0"),
	without("lease", "CLEANUP_KNOWS_WHAT_IT_LOOKED_AT", "OTHERS=0", "RUNS=2", "CLEANUPS=1"),
	without("slots", "FIRST_IN_LAST_OUT", "KILLS=0"),
	without("slots", "OPENED_UNDER_NODE_LOCK", "KILLS=0"),
	without("slots", "OPENED_BEFORE_WRITTEN"),
	without("slots", "CLAIM_BEFORE_ACCESS"),
	without("slots", "RELEASE_OPENS", "KILLS=0", "REMOVALS=1"),
}

// without returns a model without an invariant.
func without(model, invariant string, defines ...string) run {
	return run{name: invariant, model: model, defines: append(defines, "WITHOUT_"+invariant), mutation: true}
}
