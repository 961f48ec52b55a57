// An uplink is no interface of the node's: gresnet makes it in the job's namespace by one message, so the
// node never has half of one. Its address determines its identity, the index and the MAC: so the undo
// knows it before it exists, and after the job has renamed it. The prolog takes the address in the node
// table under the lock of the HCAs, with a copy in the claim's entry. The address is free again when the
// interface is gone, even if an HCA is not back.
//
// Each node computes an overlay for itself (package overlay), before any of them runs a task: an address
// says the MAC, the job's id gives the VXLAN's. Nothing is learned. The interface has
// the index of the node's, so that lists of interfaces have the same order; before Linux 6.15 it is made in
// a namespace without a name and taken to the job from there. The undo finds it by the VXLAN's id, and needs only the
// job's id.
//
// The job's HCAs may be on different rails on its nodes, and programs tell each other their addresses. No
// prolog knows which HCAs the job has elsewhere, so the networks of all HCAs that jobs of the node can get
// lead to the overlay (lib/lease, network.go), after the main table, where the job's own HCAs lead. There the
// kernel asks by ARP: the VXLAN sends broadcasts to all nodes of the job, and the one with the address
// answers from the MAC of its NodeAddr, to which the way is known. Packets come from the address of one of
// the job's own HCAs: Open MPI takes no connection from another. By the uplink they would leave by the
// node's default route, or by an HCA that any prolog may take from the node. To refuse them at once would not
// help: neither Open MPI nor UCX tries a second address.
//
// slurmd tells the prolog of a heterogeneous job's component the first one's job id (SLURM_HET_JOB_ID), but
// neither the others' ids nor their nodes, in Slurm 22.05 and 26.11 alike. If scontrol is the first source,
// it says where the others are, and they have one network with the first one's id (lib/hca/source,
// component.go). Otherwise, and where two of them share a node, which has one address, each has its own.
//
// Slurm calls back: slurmd's steps connect to srun, and slurmctld wakes it, at the node's address and the
// port that srun has told. So each job has a block of ports, which follows from the uplink's address and
// needs no entry of its own. Package ports has the programs that tell by its port whose a packet is.
package network
