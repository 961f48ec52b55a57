package poll

import "time"

// What a run looks at again and again until it is so.
var (
	// Carrier: a port trains its link again after some moves, one of 400G for five seconds and more. One
	// whose cable was pulled meanwhile gets its settings without it. All ports are brought up before the
	// first is waited for, so all train at once; Sum is for those that are brought up one after the
	// other, because one stands on another.
	Carrier = Bound{Name: "carrier", Most: 15 * time.Second, Once: true, Sum: 20 * time.Second, Half: true, Least: 2 * time.Millisecond}

	// Rename: another interface has the name for a moment.
	Rename = Bound{Name: "name", Most: 2 * time.Second, Sum: newName, Half: true, Least: 5 * time.Millisecond}
	// NewName: the same, if the kernel may have made and named that interface a moment ago: two epilogs
	// at once may find theirs made again under each other's names, and rename them as soon as a busy node
	// lets them.
	NewName = Bound{Name: "name", Most: newName, Sum: newName, Half: true, Least: 5 * time.Millisecond}
	// DeviceName: another job's VF has the name of an RDMA device while its driver binds it.
	DeviceName = Bound{Name: "device name", Most: 20 * time.Second, Least: 10 * time.Millisecond}

	// IPoIBMode: to set IPoIB's mode, the kernel lets go of the RTNL lock meanwhile and gives up if it is
	// not free at once (ipoib_main.c:ipoib_set_mode).
	IPoIBMode = Bound{Name: "IPoIB mode", Most: 2 * time.Second, Least: 5 * time.Millisecond}

	// Addresses: a node may demand duplicate address detection of all its interfaces
	// (net.ipv6.conf.all.accept_dad), and the kernel's work queue takes seconds to come to it on a busy
	// node.
	Addresses = Bound{Name: "addresses", Most: 20 * time.Second, Least: 2 * time.Millisecond}

	// GIDs: the kernel adds GIDs in a work queue of its own after an interface gets an address
	// (roce_gid_mgmt.c). All interfaces of a rollback had their addresses before the first wait.
	GIDs = Bound{Name: "GIDs", Most: 20 * time.Second, Sum: 20 * time.Second, Least: time.Millisecond}
	// RoCEv2: it adds that for RoCE v2 right after that for v1 (roce_gid_mgmt.c:update_gid).
	RoCEv2 = Bound{Name: "GIDs for RoCE v2", Most: time.Second, Least: time.Millisecond}

	// Ports: a move closes the interface, drivers of Ethernet ports take the link down with it, and the
	// two ends then take seconds to agree again.
	Ports = Bound{Name: "ports", Most: 20 * time.Second, Once: true, Least: 20 * time.Millisecond}

	// Udev: dozens of epilogs at once keep udev busy. After that the restore goes on.
	Udev = Bound{Name: "udev", Most: 30 * time.Second, Half: true, Least: 2 * time.Millisecond}

	// Managers: NetworkManager and systemd-networkd configure all interfaces at once, and Slurm waits for
	// the epilog.
	Managers = Bound{Name: "managers", Most: 10 * time.Second, Once: true, Least: 20 * time.Millisecond}

	// Dying: the kernel ends a namespace a moment after its last process, and what was in it comes back.
	Dying = Bound{Name: "what the end of a namespace returns", Most: time.Second, Least: 5 * time.Millisecond}
	// Hidden: a device is in a namespace that is neither the node's nor the job's: a socket that still sends keeps such
	// a namespace for minutes, the kernel's own clean-up for a moment. The kernel reports devices that come to the root
	// namespace.
	Hidden = Bound{Name: "a hidden device", Most: 10 * time.Second, Least: time.Second}
	// Gone: the node has no such device: a driver that recovers from a fault lets go of it for some
	// seconds, and the settings of a lost HCA are forgotten.
	Gone = Bound{Name: "a lost device", Most: 5 * time.Second, Once: true, Least: time.Second}

	// Driver: udev may have to load a driver: that of a PF when the node boots, and that of VFs when
	// there is the first.
	Driver = Bound{Name: "a driver", Most: 30 * time.Second, Least: 10 * time.Millisecond}
	// VFs: all VFs of a PF have what their drivers make. Split bounds the wait.
	VFs = Bound{Name: "VFs", Least: 20 * time.Millisecond}

	// Mode: the kernel refuses to change the RDMA netns mode until it has cleaned up dying namespaces, in
	// the background (net_namespace.c:cleanup_net).
	Mode = Bound{Name: "the RDMA netns mode", Most: 10 * time.Second, Least: 100 * time.Millisecond}

	// Holder: a job that has an HCA may be about to begin or to end. The prolog's deadline bounds the
	// wait for it.
	Holder = Bound{Name: "another job", Least: 20 * time.Millisecond, Longest: time.Second}

	// Picture: the kernel tells of a link that came back up to a second later, and IPv6 tests addresses
	// again.
	Picture = Bound{Name: "the node as it was", Most: 10 * time.Second, Least: 500 * time.Millisecond}

	// Firewall: the kernel hands a packet on at once, or to a program that judges it.
	Firewall = Bound{Name: "a packet", Most: 500 * time.Millisecond, Least: 2 * time.Millisecond}

	// Slurmctld: a slurmctld that is busy is asked again, since another one that takes over is not there
	// at once. The site's timeout bounds it.
	Slurmctld = Bound{Name: "slurmctld", Least: 200 * time.Millisecond, Longest: 5 * time.Second, Scatter: true}
)

// newName also bounds what a run waits for names in vain.
const newName = 20 * time.Second

// How long one answer may take: of the kernel, of a child, of a file system, of another program.
const (
	// Move: one move of an RDMA device takes a second with firmware, and waits for those of other jobs.
	// This is for a run that nothing bounds.
	Move = 20 * time.Second
	// EarlierMove: an earlier move of the same device, of a run that gave it up, may still end.
	EarlierMove = 10 * time.Second
	// Split: firmware takes a second for some VFs; this is for all PFs together.
	Split = 3 * time.Minute

	// NFTables: nftables' answers to a transaction. The kernel has all ready when the request is sent, so
	// only a missing answer takes so long.
	NFTables = 30 * time.Second

	// TaskStart: a program of ours starts, on a node with many busy processes for each processor.
	TaskStart = 20 * time.Second
	// HolderList: a list of one device's users, or of all that no job has. Users decide how long it is.
	HolderList = time.Second
	// ProcessLook: a look at all processes. Users have as many as they like.
	ProcessLook = 10 * time.Second
	// StepLook: a look at all steps of jobs, and the title of one process, which can keep it from being
	// read.
	StepLook  = 10 * time.Second
	StepTitle = time.Second
	// Progress: how often such a look tells where it is.
	Progress = 100 * time.Millisecond

	// Perftest: a thousand messages to the peer of a trial, by whatever link.
	Perftest = time.Minute
	// SlurmConf: slurm.conf and gres.conf may be on a file system whose server is away.
	SlurmConf = 5 * time.Second
	// Resolver: a resolver asks the next server of its list after five seconds; this is for all names at
	// once.
	Resolver = 12 * time.Second

	// OVS: Open vSwitch sets a port within milliseconds; one with hundreds of ports may be at others.
	OVS = 10 * time.Second

	// Systemd: PID 1 answers at once, if it is not busy with a boot.
	Systemd = 10 * time.Second

	// UserNames: a directory of users may be on a server that is away.
	UserNames = 5 * time.Second

	// Counters: firmware counts within milliseconds, but a process on a node that has other work may take
	// a second to start.
	Counters = 5 * time.Second

	// Drain: a prolog that has failed tells slurmctld why the node is to be drained.
	Drain = 5 * time.Second
	// LeftOpen: a program has ended, and its output is still read. Only a process that it has left behind
	// keeps the output open, but a node with many times more to do than processors takes a while to read
	// what is there.
	LeftOpen = 5 * time.Second
	// Killed: a program that is killed ends at once, but for LeftOpen. One that does not waits in the kernel.
	Killed = 10 * time.Second

	// Accounting: the site's file for accounting may be on a file system whose server is away.
	Accounting = 5 * time.Second
	// Metrics: dozens of runs that end at once write metrics one after another, and none is to be
	// missing.
	Metrics = 2 * time.Second
	// Journal: all that a run waits in vain for the systemd journal, and what a line has when nothing of
	// that is left.
	Journal     = 2 * time.Second
	JournalLine = 10 * time.Millisecond
	// Telling: all that a run takes past its deadline, if the journal or the metrics' folder is slow.
	Telling = 5 * time.Second
)

// How long something must have been so before it counts.
const (
	// ManagerQuiet: a manager has said nothing new: it may not have seen yet that an interface came back
	// which was away for moments.
	ManagerQuiet = time.Second
	// Hasty: a job has started, or its epilog has begun, before a look at all processes of the node makes
	// certain whether it did.
	Hasty = time.Second
	// Service: a process of root's that has run so long is a service. A look at an HCA, as monitors have it (ibv_devinfo), is
	// over sooner.
	Service = 30 * time.Second
	// Grace: a cleanup takes a lease without a sign that its job ever started: between the prolog's end and
	// the job's first process the job looks like one that is gone.
	Grace = 10 * time.Minute
	// Settled: a folder has changed, so its time tells of the next change: the kernel counts in ticks.
	Settled = 100 * time.Millisecond
)

// How long events are collected before somebody looks at them.
const (
	// Burst: a driver that comes back makes dozens of devices in a row.
	Burst = 100 * time.Millisecond
	// Drained: the kernel does not send 16 MiB of events in this time. A watch does not wake for each
	// event, because dozens of runs at once would each wake for the events of all.
	Drained = 50 * time.Millisecond
)
