// Package ports gives jobs the address of their node, and blocks of its ports. Five BPF programs, the same for all jobs
// of a node, tell packets apart by their ports (ports.c). They translate no port, and the kernel tracks no connection
// of a job's.
//
// What a job sends from its block leaves by the node's routes as it is, but for the source address where the node has
// another one on the interface. What comes for a port of a block goes to the job before any socket of the node is
// asked: nobody else can have the port. Only the job's nodes and Slurm's hosts begin TCP connections to it.
//
// A job is its entry in the map of jobs, and blocks that lead to its veth. The blocks are written last and removed
// first, so a packet finds a job whole or not at all. The programs and their maps are pinned together by one rename.
//
// A process of one of the job's nodes calls the job's block from the node's address. In the job, that is the address of
// the job's end on that node. So the job sees such a caller at an address of 198.19.0.0/16 (Job.Aliases).
//
// The kernel keeps two things: who has sent an echo request, and to whom the first fragment of a packet went. They share
// a list of 4 096, and the oldest entry goes first. A job that fills it costs other jobs answers to ping and fragments. What
// the node itself asks or gets takes its entry out.
package ports
