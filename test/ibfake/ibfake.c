// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * ibfake: stub RDMA devices that ib_core lets be moved between network
 * namespaces, on unmodified kernels (seen on Debian's 6.1, 6.12 and 7.3).
 *
 * Each HCA is one platform device "ibfake.N" that this driver binds, or one PCI
 * function of QEMU's "edu" device, which then is RoCE, or InfiniBand with eduib=Y, as
 * a VF in a VM that does not see its PF. From it hang one RDMA device, or two of an edu
 * with devices=2, with one port, or two with ports=2, and for RoCE one Ethernet interface
 * for each port.
 * QEMU's "nvme" has SR-IOV: as a PF with its VFs each is RoCE, or InfiniBand if
 * it has Intel's id. The PF keeps what is set of its VFs (ip link set PF vf N),
 * and nothing acts on it but a MAC and GUIDs, which count from the VF's next
 * probe on, as with mlx5. In switchdev mode each VF of a RoCE PF has a representor,
 * and packets go from one to the other.
 * Functions that the drivers named by beside= have bound are RoCE, too, with these
 * drivers' interfaces: the RDMA device comes when they bind and goes when they let go,
 * as the auxiliary device of a real NIC.
 * Nothing is ever sent: sends complete at once, receives are flushed when
 * their queue pair goes to the error state, and packets are dropped, but for
 * those of an interface of another driver, and of a representor and its VF. What is sent is counted: the port's
 * counters count what queue pairs send, IPoIB's and MADs among it, and an
 * interface's count its packets, also for each queue (ethtool -S).
 * Interfaces have rings, channels and private flags to set, IPoIB's too, and
 * they change nothing but the number of queues of an Ethernet interface: four
 * of eight, so that its root qdisc is mq. It keeps what dcb(8) sets of ETS,
 * PFC and DCBX; the kernel keeps its APP table. Its carrier is there when it
 * opens, or train= milliseconds later. Unbinding ibfake.N in sysfs takes that
 * HCA away, binding it brings it back, as a hot-plug would.
 *
 *   kind  RDMA device                          Ethernet interface
 *   IB    uverbs, umad, issm; IPoIB            -
 *   RoCE  uverbs, umad; GIDs of its interface  roceN, 02:c9:03:00:00:NN
 *   min   uverbs only, no link layer, as EFA   -
 *
 * With smi=Y an IB HCA has an RDMA device more, smiN, with umad and issm alone and its
 * GUID and place: a sub-device (RDMA_NLDEV_ATTR_PARENT_NAME).
 *
 * With hfi=Y an IB HCA is of hfi1's driver, by its id, and has a character device more, of
 * class hfi1_user: /dev/NAME, which can be opened, and no more. The platform driver is called
 * hfi1 then.
 *
 * An IB port has four P_Keys in a table of eight, the others have the default
 * one. RDMA-CM takes IB and RoCE: /sys/kernel/config/rdma_cm.
 *
 * N counts all kinds together, in the order of the table. The node GUID is
 * 0002:c903:0000:01NN; a PCI function's NN is its bus, device and function. A VF's
 * is 0, and its interface's MAC is random, until the PF was told one.
 */

#include <linux/dcbnl.h>
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <net/dcbnl.h>
#include <net/devlink.h>
#include <net/pkt_cls.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#define IBFAKE_MAX_HCAS 64
#define IBFAKE_MAX_PORTS 2
#define IBFAKE_MAX_MTU 9000
#define IBFAKE_PATH_MTU 4096
#define IBFAKE_QUEUES 4
#define IBFAKE_MAX_QUEUES 8
#define IBFAKE_MAX_VFS 16
#define IBFAKE_GUID_BASE 0x0002c90300000100ULL

static unsigned int nib;
module_param(nib, uint, 0444);
MODULE_PARM_DESC(nib, "InfiniBand HCAs: uverbs, umad, issm, IPoIB (default 0)");

static unsigned int nroce;
module_param(nroce, uint, 0444);
MODULE_PARM_DESC(nroce, "RoCE HCAs, each with an Ethernet interface of its own (default 0)");

static unsigned int nmin;
module_param(nmin, uint, 0444);
MODULE_PARM_DESC(nmin, "smallest HCAs that work: uverbs only (default 0)");

static bool disassoc = true;
module_param(disassoc, bool, 0444);
MODULE_PARM_DESC(disassoc, "offer disassociate_ucontext; without it a move is EOPNOTSUPP (default Y)");

static unsigned int gidlen = 64;
module_param(gidlen, uint, 0444);
MODULE_PARM_DESC(gidlen, "GID table length of a RoCE port (default 64)");

static int hold = -1;
module_param(hold, int, 0644);
MODULE_PARM_DESC(hold, "HCA whose users do not let go of it until this is changed: a move of it hangs (default -1, none)");

static int nolink = -1;
module_param(nolink, int, 0644);
MODULE_PARM_DESC(nolink, "HCA whose port has no link (default -1, none)");

static int slow = -1;
module_param(slow, int, 0644);
MODULE_PARM_DESC(slow, "HCA whose port has one of its four lanes (default -1, none)");

static int noisy = -1;
module_param(noisy, int, 0644);
MODULE_PARM_DESC(noisy, "HCA whose port counts 5 symbol errors, 1 link down and 7 packets out of sequence more than others (default -1, none)");

static unsigned int train;
module_param(train, uint, 0644);
MODULE_PARM_DESC(train, "milliseconds from an Ethernet interface's opening to its carrier (default 0)");

static unsigned int ports = 1;
module_param(ports, uint, 0444);
MODULE_PARM_DESC(ports, "ports of each HCA, two at most (default 1)");

static unsigned int devices = 1;
module_param(devices, uint, 0444);
MODULE_PARM_DESC(devices, "HCAs on each edu function (default 1)");

static bool eduib;
module_param(eduib, bool, 0444);
MODULE_PARM_DESC(eduib, "edu functions are InfiniBand HCAs (default N: RoCE)");

static bool smi;
module_param(smi, bool, 0444);
MODULE_PARM_DESC(smi, "give each InfiniBand HCA an SMI sub-device smiN, as ConnectX-8 has one (kernels 6.11 to 7.2, default N)");

static bool hfi;
module_param(hfi, bool, 0444);
MODULE_PARM_DESC(hfi, "InfiniBand HCAs have hfi1's id and its character device beside uverbs; with name=hfi1_%d (default N)");

static char *name = "ibfake%d";
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "name of the RDMA devices, with one %d, as in mlx5_%d (default ibfake%d)");

static char *nics[IBFAKE_MAX_HCAS];
static unsigned int nic_count;
module_param_array_named(nic, nics, charp, &nic_count, 0444);
MODULE_PARM_DESC(nic, "interfaces of other drivers that the first RoCE HCAs have in place of their own (default none)");

static char *beside[4];
static unsigned int beside_count;
module_param_array(beside, charp, &beside_count, 0444);
MODULE_PARM_DESC(beside, "PCI drivers whose functions are RoCE HCAs, with the interfaces that the drivers make (default none)");

enum ibfake_kind {
	IBFAKE_IB,
	IBFAKE_ROCE,
	IBFAKE_MIN,
};

/* What a PF keeps of a VF. */
struct ibfake_vf {
	u8 mac[ETH_ALEN];
	u16 vlan;
	u8 qos;
	__be16 proto;
	int min_rate, max_rate, state;
	bool spoofchk, trusted;
	u64 node_guid, port_guid;
	struct net_device __rcu *netdev; /* its own interface, of a RoCE VF */
	struct net_device __rcu *rep; /* its representor, in switchdev mode */
};

struct ibfake_hca {
	struct ib_device ibdev;
	bool sub; /* an SMI sub-device */
	struct pci_dev *pdev; /* on PCI only */
	struct ibfake_vf vfs[IBFAKE_MAX_VFS]; /* of a PF */
	bool switchdev; /* of a RoCE PF */
	u64 port_guid; /* of an InfiniBand VF; 0: its node GUID */
	enum ibfake_kind kind;
	int index;
	struct net_device *netdevs[IBFAKE_MAX_PORTS]; /* RoCE only */
	atomic_t last_qpn;
	atomic64_t sent_bytes, sent_packets; /* by queue pairs */
};

struct ibfake_ucontext {
	struct ib_ucontext ibucontext;
};

struct ibfake_pd {
	struct ib_pd ibpd;
};

struct ibfake_ah {
	struct ib_ah ibah;
};

struct ibfake_completion {
	struct list_head entry;
	struct ib_wc wc;
};

struct ibfake_cq {
	struct ib_cq ibcq;
	spinlock_t lock; /* completions, armed */
	struct list_head completions;
	bool armed;
	struct work_struct notify;
};

struct ibfake_qp {
	struct ib_qp ibqp;
	spinlock_t lock; /* receives, state */
	struct list_head receives;
	enum ib_qp_state state;
};

static struct platform_device *hcas[IBFAKE_MAX_HCAS];
static unsigned int hca_count;

static struct ibfake_hca *to_hca(struct ib_device *ibdev)
{
	return container_of(ibdev, struct ibfake_hca, ibdev);
}

static bool ibfake_is_vf(struct ibfake_hca *hca)
{
	return hca->pdev && hca->pdev->is_virtfn;
}

static bool ibfake_is_pf(struct ibfake_hca *hca)
{
	return hca->pdev && hca->pdev->is_physfn;
}

static struct ibfake_cq *to_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct ibfake_cq, ibcq);
}

static struct ibfake_qp *to_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct ibfake_qp, ibqp);
}

/* The device and its port. ib_register_device() calls all of these. */

/* The first one is the default, which IPoIB's parents take. 0 is an entry not in use. */
static const u16 ibfake_pkeys[] = { 0xffff, 0x8001, 0x8002, 0x7fff, 0, 0, 0, 0 };

static int ibfake_pkey_tbl_len(struct ibfake_hca *hca)
{
	return hca->kind == IBFAKE_IB ? ARRAY_SIZE(ibfake_pkeys) : 1;
}

static int ibfake_query_device(struct ib_device *ibdev,
			       struct ib_device_attr *attr,
			       struct ib_udata *udata)
{
	attr->fw_ver = 1;
	attr->sys_image_guid = ibdev->node_guid;
	attr->max_mr_size = ~0ull;
	attr->max_qp = 1024;
	attr->max_cq = 1024;
	attr->max_mr = 1024;
	attr->max_pd = 1024;
	attr->max_ah = 1024;
	attr->max_qp_wr = 8192;
	attr->max_cqe = 65536;
	attr->max_send_sge = 16;
	attr->max_recv_sge = 16;
	attr->max_pkeys = ibfake_pkey_tbl_len(to_hca(ibdev));
	attr->max_mcast_grp = 16;
	attr->max_mcast_qp_attach = 16;
	if (ibfake_is_vf(to_hca(ibdev)))
		attr->kernel_cap_flags |= IBK_VIRTUAL_FUNCTION;
	return 0;
}

static int ibfake_gid_tbl_len(struct ibfake_hca *hca)
{
	return hca->kind == IBFAKE_ROCE ? gidlen : 1;
}

/* As with hardware, a RoCE port is up while its interface is. */
static bool ibfake_port_is_up(struct ibfake_hca *hca, u32 port)
{
	struct net_device *netdev = hca->netdevs[port - 1];

	if (READ_ONCE(nolink) == hca->index)
		return false;
	if (!netdev)
		return true;
	return netif_running(netdev) && netif_carrier_ok(netdev);
}

static int ibfake_query_port(struct ib_device *ibdev, u32 port,
			     struct ib_port_attr *attr)
{
	struct ibfake_hca *hca = to_hca(ibdev);

	attr->state = IB_PORT_DOWN;
	attr->phys_state = IB_PORT_PHYS_STATE_DISABLED;
	if (ibfake_port_is_up(hca, port)) {
		attr->state = IB_PORT_ACTIVE;
		attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	}
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	if (hca->netdevs[port - 1])
		attr->active_mtu = iboe_get_mtu(hca->netdevs[port - 1]->mtu);
	attr->pkey_tbl_len = ibfake_pkey_tbl_len(hca);
	attr->gid_tbl_len = ibfake_gid_tbl_len(hca);
	attr->active_speed = IB_SPEED_EDR;
	attr->active_width = READ_ONCE(slow) == hca->index ? IB_WIDTH_1X : IB_WIDTH_4X;
	attr->max_msg_sz = 1 << 30;
	if (hca->kind == IBFAKE_IB) {
		attr->lid = 10 + hca->index + (port - 1) * IBFAKE_MAX_HCAS;
		attr->sm_lid = 1;
		attr->max_vl_num = 1;
	}
	return 0;
}

static int ibfake_get_port_immutable(struct ib_device *ibdev, u32 port,
				     struct ib_port_immutable *immutable)
{
	struct ibfake_hca *hca = to_hca(ibdev);

	immutable->gid_tbl_len = ibfake_gid_tbl_len(hca);
	immutable->pkey_tbl_len = ibfake_pkey_tbl_len(hca);
	switch (hca->kind) {
	case IBFAKE_IB:
		immutable->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
		if (hca->sub) /* so IPoIB does not take it */
			immutable->core_cap_flags = RDMA_CORE_CAP_IB_MAD | RDMA_CORE_CAP_IB_SMI;
		immutable->max_mad_size = IB_MGMT_MAD_SIZE;
		break;
	case IBFAKE_ROCE:
		/* RoCE v1 and v2: each address has a GID of either */
		immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE |
					    RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
		immutable->max_mad_size = IB_MGMT_MAD_SIZE;
		break;
	case IBFAKE_MIN:
		/* max_mad_size must stay 0 without the MAD capability */
		immutable->core_cap_flags = RDMA_CORE_PORT_RAW_PACKET;
		break;
	}
	return 0;
}

static int ibfake_query_pkey(struct ib_device *ibdev, u32 port, u16 index,
			     u16 *pkey)
{
	if (index >= ibfake_pkey_tbl_len(to_hca(ibdev)))
		return -EINVAL;
	*pkey = ibfake_pkeys[index];
	return 0;
}

/* IB and min ports; the GIDs of a RoCE port are ib_core's own. */
static int ibfake_query_gid(struct ib_device *ibdev, u32 port, int index,
			    union ib_gid *gid)
{
	u64 guid = to_hca(ibdev)->port_guid;

	if (index)
		return -EINVAL;
	if (!guid)
		guid = be64_to_cpu(ibdev->node_guid);
	guid += (u64)(port - 1) << 32;
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id = cpu_to_be64(guid);
	return 0;
}

static enum rdma_link_layer ibfake_get_link_layer(struct ib_device *ibdev,
						  u32 port)
{
	switch (to_hca(ibdev)->kind) {
	case IBFAKE_IB:
		return IB_LINK_LAYER_INFINIBAND;
	case IBFAKE_ROCE:
		return IB_LINK_LAYER_ETHERNET;
	default:
		return IB_LINK_LAYER_UNSPECIFIED;
	}
}

static int ibfake_add_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static int ibfake_del_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

/* User contexts, protection domains, memory regions, address handles. */

static int ibfake_alloc_ucontext(struct ib_ucontext *context,
				 struct ib_udata *udata)
{
	return 0;
}

static void ibfake_dealloc_ucontext(struct ib_ucontext *context)
{
}

/* Its presence is what makes a device movable: rdma_dev_change_netns(). */
static void ibfake_disassociate_ucontext(struct ib_ucontext *context)
{
}

static int ibfake_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int ibfake_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static struct ib_mr *ibfake_alloc_mr(void)
{
	static atomic_t last_key;
	struct ib_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->lkey = atomic_inc_return(&last_key);
	mr->rkey = mr->lkey;
	return mr;
}

static struct ib_mr *ibfake_get_dma_mr(struct ib_pd *pd, int access)
{
	return ibfake_alloc_mr();
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
static struct ib_mr *ibfake_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
					u64 virt_addr, int access,
					struct ib_dmah *dmah,
					struct ib_udata *udata)
{
	return ibfake_alloc_mr();
}
#else
static struct ib_mr *ibfake_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
					u64 virt_addr, int access,
					struct ib_udata *udata)
{
	return ibfake_alloc_mr();
}
#endif

static int ibfake_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	kfree(mr);
	return 0;
}

static int ibfake_create_ah(struct ib_ah *ah, struct rdma_ah_init_attr *attr,
			    struct ib_udata *udata)
{
	return 0;
}

static int ibfake_destroy_ah(struct ib_ah *ah, u32 flags)
{
	return 0;
}

/* Completion queues. */

static void ibfake_cq_notify(struct work_struct *work)
{
	struct ibfake_cq *cq = container_of(work, struct ibfake_cq, notify);

	if (cq->ibcq.comp_handler)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

static void ibfake_complete(struct ib_cq *ibcq, struct ibfake_completion *done)
{
	struct ibfake_cq *cq = to_cq(ibcq);
	unsigned long flags;
	bool notify;

	spin_lock_irqsave(&cq->lock, flags);
	list_add_tail(&done->entry, &cq->completions);
	notify = cq->armed;
	cq->armed = false;
	spin_unlock_irqrestore(&cq->lock, flags);

	if (notify)
		queue_work(system_unbound_wq, &cq->notify);
}

static void ibfake_free_completions(struct list_head *list)
{
	struct ibfake_completion *done, *next;

	list_for_each_entry_safe(done, next, list, entry) {
		list_del(&done->entry);
		kfree(done);
	}
}

static int ibfake_init_cq(struct ib_cq *ibcq,
			  const struct ib_cq_init_attr *attr)
{
	struct ibfake_cq *cq = to_cq(ibcq);

	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->completions);
	INIT_WORK(&cq->notify, ibfake_cq_notify);
	ibcq->cqe = attr->cqe;
	return 0;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
static int ibfake_create_cq(struct ib_cq *ibcq,
			    const struct ib_cq_init_attr *attr,
			    struct uverbs_attr_bundle *attrs)
{
	return ibfake_init_cq(ibcq, attr);
}
#else
static int ibfake_create_cq(struct ib_cq *ibcq,
			    const struct ib_cq_init_attr *attr,
			    struct ib_udata *udata)
{
	return ibfake_init_cq(ibcq, attr);
}
#endif

static int ibfake_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct ibfake_cq *cq = to_cq(ibcq);

	cancel_work_sync(&cq->notify);
	ibfake_free_completions(&cq->completions);
	return 0;
}

static int ibfake_poll_cq(struct ib_cq *ibcq, int max, struct ib_wc *wc)
{
	struct ibfake_cq *cq = to_cq(ibcq);
	struct ibfake_completion *done;
	unsigned long flags;
	int n = 0;

	spin_lock_irqsave(&cq->lock, flags);
	while (n < max && !list_empty(&cq->completions)) {
		done = list_first_entry(&cq->completions,
					struct ibfake_completion, entry);
		wc[n++] = done->wc;
		list_del(&done->entry);
		kfree(done);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

static int ibfake_req_notify_cq(struct ib_cq *ibcq,
				enum ib_cq_notify_flags notify_flags)
{
	struct ibfake_cq *cq = to_cq(ibcq);
	unsigned long flags;
	int missed;

	spin_lock_irqsave(&cq->lock, flags);
	cq->armed = true;
	missed = (notify_flags & IB_CQ_REPORT_MISSED_EVENTS) &&
		 !list_empty(&cq->completions);
	spin_unlock_irqrestore(&cq->lock, flags);
	return missed;
}

/*
 * Queue pairs. Sends have to complete and receives to be flushed on error,
 * or taking IPoIB down and closing a MAD agent wait for ever.
 */

static u32 ibfake_new_qpn(struct ibfake_hca *hca, enum ib_qp_type type)
{
	switch (type) {
	case IB_QPT_SMI:
		return 0;
	case IB_QPT_GSI:
		return 1;
	default:
		return 16 + atomic_inc_return(&hca->last_qpn);
	}
}

static int ibfake_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
			    struct ib_udata *udata)
{
	struct ibfake_qp *qp = to_qp(ibqp);

	spin_lock_init(&qp->lock);
	INIT_LIST_HEAD(&qp->receives);
	ibqp->qp_num = ibfake_new_qpn(to_hca(ibqp->device), attr->qp_type);
	return 0;
}

static void ibfake_flush(struct ib_qp *ibqp, struct list_head *receives)
{
	struct ibfake_completion *done, *next;

	list_for_each_entry_safe(done, next, receives, entry) {
		list_del(&done->entry);
		done->wc.status = IB_WC_WR_FLUSH_ERR;
		ibfake_complete(ibqp->recv_cq, done);
	}
}

static int ibfake_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr,
			    int mask, struct ib_udata *udata)
{
	struct ibfake_qp *qp = to_qp(ibqp);
	unsigned long flags;
	LIST_HEAD(receives);

	if (!(mask & IB_QP_STATE))
		return 0;

	spin_lock_irqsave(&qp->lock, flags);
	qp->state = attr->qp_state;
	if (qp->state == IB_QPS_ERR || qp->state == IB_QPS_RESET)
		list_splice_init(&qp->receives, &receives);
	spin_unlock_irqrestore(&qp->lock, flags);

	if (attr->qp_state == IB_QPS_RESET)
		ibfake_free_completions(&receives);
	else
		ibfake_flush(ibqp, &receives);
	return 0;
}

static int ibfake_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr,
			   int mask, struct ib_qp_init_attr *init_attr)
{
	memset(attr, 0, sizeof(*attr));
	memset(init_attr, 0, sizeof(*init_attr));
	attr->qp_state = to_qp(ibqp)->state;
	attr->cur_qp_state = to_qp(ibqp)->state;
	return 0;
}

static int ibfake_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	ibfake_free_completions(&to_qp(ibqp)->receives);
	return 0;
}

static void ibfake_count_send(struct ib_qp *ibqp, const struct ib_send_wr *wr)
{
	struct ibfake_hca *hca = to_hca(ibqp->device);
	u64 bytes = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	atomic64_add(bytes, &hca->sent_bytes);
	/* a message of no bytes is a packet, too */
	atomic64_add(max_t(u64, 1, DIV_ROUND_UP_ULL(bytes, IBFAKE_PATH_MTU)),
		     &hca->sent_packets);
}

static int ibfake_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
			    const struct ib_send_wr **bad_wr)
{
	struct ibfake_completion *done;

	for (; wr; wr = wr->next) {
		done = kzalloc(sizeof(*done), GFP_ATOMIC);
		if (!done) {
			*bad_wr = wr;
			return -ENOMEM;
		}
		done->wc.wr_cqe = wr->wr_cqe;
		done->wc.qp = ibqp;
		done->wc.opcode = IB_WC_SEND;
		done->wc.status = IB_WC_SUCCESS;
		if (to_qp(ibqp)->state == IB_QPS_ERR)
			done->wc.status = IB_WC_WR_FLUSH_ERR;
		else
			ibfake_count_send(ibqp, wr);
		ibfake_complete(ibqp->send_cq, done);
	}
	return 0;
}

static int ibfake_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
			    const struct ib_recv_wr **bad_wr)
{
	struct ibfake_qp *qp = to_qp(ibqp);
	struct ibfake_completion *done;
	unsigned long flags;
	bool flush;

	for (; wr; wr = wr->next) {
		done = kzalloc(sizeof(*done), GFP_ATOMIC);
		if (!done) {
			*bad_wr = wr;
			return -ENOMEM;
		}
		done->wc.wr_cqe = wr->wr_cqe;
		done->wc.qp = ibqp;
		done->wc.opcode = IB_WC_RECV;
		done->wc.status = IB_WC_WR_FLUSH_ERR;

		spin_lock_irqsave(&qp->lock, flags);
		flush = qp->state == IB_QPS_ERR;
		if (!flush)
			list_add_tail(&done->entry, &qp->receives);
		spin_unlock_irqrestore(&qp->lock, flags);

		if (flush)
			ibfake_complete(ibqp->recv_cq, done);
	}
	return 0;
}

static int ibfake_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return 0;
}

static int ibfake_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return 0;
}

static bool ibfake_is_noisy(struct ibfake_hca *hca)
{
	return READ_ONCE(noisy) == hca->index;
}

/*
 * Performance management, which counters/ in sysfs asks for: what is sent.
 * The extended counters are those without the IETF's four.
 */
static void ibfake_fill_pma(struct ibfake_hca *hca, u32 port,
			    struct ib_pma_mad *pma)
{
	struct ib_class_port_info *class = (void *)pma->data;
	struct ib_pma_portcounters *counters = (void *)pma->data;
	struct ib_pma_portcounters_ext *extended = (void *)pma->data;
	u64 words = atomic64_read(&hca->sent_bytes) / 4;
	u64 packets = atomic64_read(&hca->sent_packets);

	memset(pma->data, 0, sizeof(pma->data));
	switch (pma->mad_hdr.attr_id) {
	case IB_PMA_CLASS_PORT_INFO:
		class->base_version = IB_MGMT_BASE_VERSION;
		class->class_version = 1;
		class->capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH_NOIETF;
		break;
	case IB_PMA_PORT_COUNTERS: /* these stop at their end */
		counters->port_select = port;
		counters->port_xmit_data = cpu_to_be32(min_t(u64, words, U32_MAX));
		counters->port_xmit_packets = cpu_to_be32(min_t(u64, packets, U32_MAX));
		counters->symbol_error_counter = cpu_to_be16(ibfake_is_noisy(hca) ? 5 : 0);
		counters->link_downed_counter = ibfake_is_noisy(hca) ? 1 : 0;
		break;
	case IB_PMA_PORT_COUNTERS_EXT:
		extended->port_select = port;
		extended->port_xmit_data = cpu_to_be64(words);
		extended->port_xmit_packets = cpu_to_be64(packets);
		break;
	}
}

static int ibfake_process_mad(struct ib_device *ibdev, int flags, u32 port,
			      const struct ib_wc *in_wc,
			      const struct ib_grh *in_grh,
			      const struct ib_mad *in, struct ib_mad *out,
			      size_t *out_size, u16 *out_pkey_index)
{
	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT)
		return IB_MAD_RESULT_SUCCESS;
	*out = *in;
	out->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	ibfake_fill_pma(to_hca(ibdev), port, (struct ib_pma_mad *)out);
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

/* hw_counters/: what is sent, in bytes, and a fault. */

static const struct rdma_stat_desc ibfake_stats[] = {
	{ .name = "sent_bytes" },
	{ .name = "sent_packets" },
	{ .name = "out_of_sequence" },
};

static struct rdma_hw_stats *ibfake_alloc_hw_port_stats(struct ib_device *ibdev,
							u32 port)
{
	return rdma_alloc_hw_stats_struct(ibfake_stats,
					  ARRAY_SIZE(ibfake_stats),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

static int ibfake_get_hw_stats(struct ib_device *ibdev,
			       struct rdma_hw_stats *stats, u32 port, int index)
{
	struct ibfake_hca *hca = to_hca(ibdev);

	stats->value[0] = atomic64_read(&hca->sent_bytes);
	stats->value[1] = atomic64_read(&hca->sent_packets);
	stats->value[2] = ibfake_is_noisy(hca) ? 7 : 0;
	return ARRAY_SIZE(ibfake_stats);
}

static const struct ib_device_ops ibfake_min_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 1,

	.alloc_ucontext = ibfake_alloc_ucontext,
	.dealloc_ucontext = ibfake_dealloc_ucontext,
	.get_link_layer = ibfake_get_link_layer,
	.get_port_immutable = ibfake_get_port_immutable,
	.query_device = ibfake_query_device,
	.query_gid = ibfake_query_gid,
	.query_pkey = ibfake_query_pkey,
	.query_port = ibfake_query_port,

	INIT_RDMA_OBJ_SIZE(ib_ucontext, ibfake_ucontext, ibucontext),
};

static const struct ib_device_ops ibfake_hfi_ops = {
	.driver_id = RDMA_DRIVER_HFI1,
};

static const struct ib_device_ops ibfake_disassociate_ops = {
	.disassociate_ucontext = ibfake_disassociate_ucontext,
};

/* With any of the verbs missing, ib_core offers the device to uverbs alone. */
static const struct ib_device_ops ibfake_verbs_ops = {
	.alloc_hw_port_stats = ibfake_alloc_hw_port_stats,
	.alloc_pd = ibfake_alloc_pd,
	.attach_mcast = ibfake_attach_mcast,
	.create_ah = ibfake_create_ah,
	.create_cq = ibfake_create_cq,
	.create_qp = ibfake_create_qp,
	.dealloc_pd = ibfake_dealloc_pd,
	.dereg_mr = ibfake_dereg_mr,
	.destroy_ah = ibfake_destroy_ah,
	.destroy_cq = ibfake_destroy_cq,
	.destroy_qp = ibfake_destroy_qp,
	.detach_mcast = ibfake_detach_mcast,
	.get_dma_mr = ibfake_get_dma_mr,
	.get_hw_stats = ibfake_get_hw_stats,
	.modify_qp = ibfake_modify_qp,
	.poll_cq = ibfake_poll_cq,
	.post_recv = ibfake_post_recv,
	.post_send = ibfake_post_send,
	.process_mad = ibfake_process_mad,
	.query_qp = ibfake_query_qp,
	.reg_user_mr = ibfake_reg_user_mr,
	.req_notify_cq = ibfake_req_notify_cq,

	INIT_RDMA_OBJ_SIZE(ib_ah, ibfake_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, ibfake_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_pd, ibfake_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, ibfake_qp, ibqp),
};

static const struct ib_device_ops ibfake_roce_ops = {
	.add_gid = ibfake_add_gid,
	.del_gid = ibfake_del_gid,
};

/* The Ethernet interface of a RoCE HCA. */

struct ibfake_nic {
	struct net_device *netdev;
	struct ibfake_hca *hca; /* NULL until it is registered */
	struct delayed_work trained;
	struct ieee_ets ets;
	struct ieee_pfc pfc;
	u8 dcbx;
	struct {
		atomic64_t packets, bytes;
	} sent[IBFAKE_MAX_QUEUES];
};

static void ibfake_trained(struct work_struct *work)
{
	struct ibfake_nic *nic = container_of(work, struct ibfake_nic, trained.work);

	netif_carrier_on(nic->netdev);
}

static int ibfake_open(struct net_device *netdev)
{
	struct ibfake_nic *nic = netdev_priv(netdev);
	unsigned int ms = READ_ONCE(train);

	netif_tx_start_all_queues(netdev);
	if (!ms) {
		netif_carrier_on(netdev);
		return 0;
	}
	netif_carrier_off(netdev);
	schedule_delayed_work(&nic->trained, msecs_to_jiffies(ms));
	return 0;
}

static int ibfake_stop(struct net_device *netdev)
{
	struct ibfake_nic *nic = netdev_priv(netdev);

	cancel_delayed_work_sync(&nic->trained);
	if (READ_ONCE(train))
		netif_carrier_off(netdev);
	netif_tx_stop_all_queues(netdev);
	return 0;
}

static struct ibfake_vf *ibfake_own_vf(struct pci_dev *pdev);

static struct ibfake_vf *ibfake_netdev_own_vf(struct net_device *netdev)
{
	struct device *dev = netdev->dev.parent;

	return ibfake_own_vf(dev && dev_is_pci(dev) ? to_pci_dev(dev) : NULL);
}

/* To the other end, if there is one. */
static netdev_tx_t ibfake_forward(struct sk_buff *skb, struct net_device __rcu **end)
{
	struct net_device *to;

	rcu_read_lock();
	to = end ? rcu_dereference(*end) : NULL;
	if (to)
		dev_forward_skb(to, skb);
	else
		dev_consume_skb_any(skb);
	rcu_read_unlock();
	return NETDEV_TX_OK;
}

/* What a VF sends arrives at its representor. */
static netdev_tx_t ibfake_xmit(struct sk_buff *skb, struct net_device *netdev)
{
	struct ibfake_nic *nic = netdev_priv(netdev);
	struct ibfake_vf *vf = ibfake_netdev_own_vf(netdev);
	u16 queue = skb_get_queue_mapping(skb);

	atomic64_inc(&nic->sent[queue].packets);
	atomic64_add(skb->len, &nic->sent[queue].bytes);
	return ibfake_forward(skb, vf ? &vf->rep : NULL);
}

static void ibfake_get_stats64(struct net_device *netdev,
			       struct rtnl_link_stats64 *stats)
{
	struct ibfake_nic *nic = netdev_priv(netdev);
	int i;

	for (i = 0; i < IBFAKE_MAX_QUEUES; i++) {
		stats->tx_packets += atomic64_read(&nic->sent[i].packets);
		stats->tx_bytes += atomic64_read(&nic->sent[i].bytes);
	}
}

/*
 * `tc qdisc add dev roce0 root mqprio hw 1`: the hardware has the classes that it
 * is told of, and none when the discipline goes.
 */
static int ibfake_setup_tc(struct net_device *netdev, enum tc_setup_type type,
			   void *data)
{
	struct tc_mqprio_qopt *qopt = data;
	int tc, err;

	if (type != TC_SETUP_QDISC_MQPRIO)
		return -EOPNOTSUPP;
	netdev_reset_tc(netdev);
	if (!qopt->num_tc)
		return 0;
	err = netdev_set_num_tc(netdev, qopt->num_tc);
	for (tc = 0; !err && tc < qopt->num_tc; tc++)
		err = netdev_set_tc_queue(netdev, tc, qopt->count[tc],
					  qopt->offset[tc]);
	qopt->hw = TC_MQPRIO_HW_OFFLOAD_TCS;
	return err;
}

/* A PF's VFs: ib_core and the network stack ask for them by their number. */

static struct ibfake_vf *ibfake_vf(struct ibfake_hca *hca, int n)
{
	if (!hca || !ibfake_is_pf(hca))
		return NULL;
	if (n < 0 || n >= min(pci_num_vf(hca->pdev), IBFAKE_MAX_VFS))
		return NULL;
	return &hca->vfs[n];
}

static struct ibfake_vf *ibfake_netdev_vf(struct net_device *netdev, int n)
{
	return ibfake_vf(((struct ibfake_nic *)netdev_priv(netdev))->hca, n);
}

/*
 * What the PF keeps of the VF that pdev is; NULL if it is none. A VF's first
 * probe is before the PF counts it (pci/iov.c:sriov_enable).
 */
static struct ibfake_vf *ibfake_own_vf(struct pci_dev *pdev)
{
	struct ibfake_hca *pf;
	int n;

	if (!pdev || !pdev->is_virtfn)
		return NULL;
	pf = pci_get_drvdata(pci_physfn(pdev));
	n = pci_iov_vf_id(pdev);
	return pf && n >= 0 && n < IBFAKE_MAX_VFS ? &pf->vfs[n] : NULL;
}

static int ibfake_set_vf_mac(struct net_device *netdev, int n, u8 *mac)
{
	struct ibfake_vf *vf = ibfake_netdev_vf(netdev, n);

	if (!vf)
		return -EINVAL;
	ether_addr_copy(vf->mac, mac);
	return 0;
}

static int ibfake_set_vf_vlan(struct net_device *netdev, int n, u16 vlan,
			      u8 qos, __be16 proto)
{
	struct ibfake_vf *vf = ibfake_netdev_vf(netdev, n);

	if (!vf || vlan >= VLAN_N_VID || qos > 7)
		return -EINVAL;
	vf->vlan = vlan;
	vf->qos = qos;
	vf->proto = proto;
	return 0;
}

static int ibfake_set_vf_rate(struct net_device *netdev, int n, int min, int max)
{
	struct ibfake_vf *vf = ibfake_netdev_vf(netdev, n);

	if (!vf || (max && min > max))
		return -EINVAL;
	vf->min_rate = min;
	vf->max_rate = max;
	return 0;
}

static int ibfake_set_vf_spoofchk(struct net_device *netdev, int n, bool on)
{
	struct ibfake_vf *vf = ibfake_netdev_vf(netdev, n);

	if (!vf)
		return -EINVAL;
	vf->spoofchk = on;
	return 0;
}

static int ibfake_set_vf_trust(struct net_device *netdev, int n, bool on)
{
	struct ibfake_vf *vf = ibfake_netdev_vf(netdev, n);

	if (!vf)
		return -EINVAL;
	vf->trusted = on;
	return 0;
}

static int ibfake_set_vf_link_state(struct net_device *netdev, int n, int state)
{
	struct ibfake_vf *vf = ibfake_netdev_vf(netdev, n);

	if (!vf)
		return -EINVAL;
	vf->state = state;
	return 0;
}

static int ibfake_fill_vf(struct ibfake_vf *vf, int n, struct ifla_vf_info *info)
{
	if (!vf)
		return -EINVAL;
	memset(info, 0, sizeof(*info));
	info->vf = n;
	ether_addr_copy(info->mac, vf->mac);
	info->vlan = vf->vlan;
	info->qos = vf->qos;
	info->vlan_proto = vf->proto ? vf->proto : htons(ETH_P_8021Q);
	info->min_tx_rate = vf->min_rate;
	info->max_tx_rate = vf->max_rate;
	info->spoofchk = vf->spoofchk;
	info->trusted = vf->trusted;
	info->linkstate = vf->state;
	return 0;
}

static int ibfake_get_vf_config(struct net_device *netdev, int n,
				struct ifla_vf_info *info)
{
	return ibfake_fill_vf(ibfake_netdev_vf(netdev, n), n, info);
}

/* An InfiniBand PF is asked by way of its IPoIB interface. */

static int ibfake_ib_get_vf_config(struct ib_device *ibdev, int n, u32 port,
				   struct ifla_vf_info *info)
{
	return ibfake_fill_vf(ibfake_vf(to_hca(ibdev), n), n, info);
}

static int ibfake_ib_set_vf_link_state(struct ib_device *ibdev, int n, u32 port,
				       int state)
{
	struct ibfake_vf *vf = ibfake_vf(to_hca(ibdev), n);

	if (!vf)
		return -EINVAL;
	vf->state = state;
	return 0;
}

static int ibfake_ib_set_vf_guid(struct ib_device *ibdev, int n, u32 port,
				 u64 guid, int type)
{
	struct ibfake_vf *vf = ibfake_vf(to_hca(ibdev), n);

	if (!vf)
		return -EINVAL;
	if (type == IFLA_VF_IB_NODE_GUID)
		vf->node_guid = guid;
	else
		vf->port_guid = guid;
	return 0;
}

static int ibfake_ib_get_vf_guid(struct ib_device *ibdev, int n, u32 port,
				 struct ifla_vf_guid *node_guid,
				 struct ifla_vf_guid *port_guid)
{
	struct ibfake_vf *vf = ibfake_vf(to_hca(ibdev), n);

	if (!vf)
		return -EINVAL;
	node_guid->guid = vf->node_guid;
	port_guid->guid = vf->port_guid;
	return 0;
}

static const struct ib_device_ops ibfake_pf_ops = {
	.get_vf_config = ibfake_ib_get_vf_config,
	.get_vf_guid = ibfake_ib_get_vf_guid,
	.set_vf_guid = ibfake_ib_set_vf_guid,
	.set_vf_link_state = ibfake_ib_set_vf_link_state,
};

/*
 * In switchdev mode each VF of a RoCE PF has a representor on the node, as a port
 * of the card's switch has a cable: what the VF sends arrives there, and what the
 * representor sends arrives at the VF, wherever that is.
 */
struct ibfake_rep {
	struct ibfake_hca *pf;
	int n;
};

static int ibfake_rep_open(struct net_device *netdev)
{
	netif_start_queue(netdev);
	netif_carrier_on(netdev);
	return 0;
}

static int ibfake_rep_stop(struct net_device *netdev)
{
	netif_stop_queue(netdev);
	return 0;
}

static netdev_tx_t ibfake_rep_xmit(struct sk_buff *skb, struct net_device *netdev)
{
	struct ibfake_rep *rep = netdev_priv(netdev);

	return ibfake_forward(skb, &rep->pf->vfs[rep->n].netdev);
}

static int ibfake_switch_id(struct ibfake_hca *pf, struct netdev_phys_item_id *id)
{
	id->id_len = sizeof(pf->ibdev.node_guid);
	memcpy(id->id, &pf->ibdev.node_guid, id->id_len);
	return 0;
}

static int ibfake_rep_switch_id(struct net_device *netdev,
				struct netdev_phys_item_id *id)
{
	return ibfake_switch_id(((struct ibfake_rep *)netdev_priv(netdev))->pf, id);
}

static int ibfake_rep_port_name(struct net_device *netdev, char *buf, size_t len)
{
	struct ibfake_rep *rep = netdev_priv(netdev);

	snprintf(buf, len, "pf%uvf%d", PCI_FUNC(rep->pf->pdev->devfn), rep->n);
	return 0;
}

static const struct net_device_ops ibfake_rep_ops = {
	.ndo_open = ibfake_rep_open,
	.ndo_stop = ibfake_rep_stop,
	.ndo_start_xmit = ibfake_rep_xmit,
	.ndo_get_phys_port_name = ibfake_rep_port_name,
	.ndo_get_port_parent_id = ibfake_rep_switch_id,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static int ibfake_add_rep(struct ibfake_hca *pf, int n)
{
	struct net_device *netdev = alloc_etherdev(sizeof(struct ibfake_rep));
	struct ibfake_rep *rep;
	int err;

	if (!netdev)
		return -ENOMEM;
	rep = netdev_priv(netdev);
	rep->pf = pf;
	rep->n = n;
	SET_NETDEV_DEV(netdev, &pf->pdev->dev);
	strscpy(netdev->name, "rep%d", sizeof(netdev->name));
	netdev->netdev_ops = &ibfake_rep_ops;
	netdev->max_mtu = IBFAKE_MAX_MTU;
	netdev->mtu = IBFAKE_MAX_MTU;
	eth_hw_addr_random(netdev);
	err = register_netdev(netdev);
	if (err) {
		free_netdev(netdev);
		return err;
	}
	rcu_assign_pointer(pf->vfs[n].rep, netdev);
	return 0;
}

static void ibfake_remove_reps(struct ibfake_hca *pf)
{
	struct net_device *netdev;
	int n;

	for (n = 0; n < IBFAKE_MAX_VFS; n++) {
		netdev = rcu_replace_pointer(pf->vfs[n].rep, NULL, true);
		if (!netdev)
			continue;
		unregister_netdev(netdev);
		free_netdev(netdev);
	}
}

static int ibfake_add_reps(struct ibfake_hca *pf, int count)
{
	int n, err = 0;

	for (n = 0; !err && n < min(count, IBFAKE_MAX_VFS); n++)
		if (!rcu_access_pointer(pf->vfs[n].rep))
			err = ibfake_add_rep(pf, n);
	if (err)
		ibfake_remove_reps(pf);
	return err;
}

/* A PF's devlink device has the mode of its eswitch. */
struct ibfake_eswitch {
	struct ibfake_hca *pf;
	u16 mode;
};

static int ibfake_eswitch_mode_get(struct devlink *devlink, u16 *mode)
{
	*mode = ((struct ibfake_eswitch *)devlink_priv(devlink))->mode;
	return 0;
}

static int ibfake_eswitch_mode_set(struct devlink *devlink, u16 mode,
				   struct netlink_ext_ack *extack)
{
	struct ibfake_eswitch *eswitch = devlink_priv(devlink);
	struct ibfake_hca *pf = eswitch->pf;
	bool on = mode == DEVLINK_ESWITCH_MODE_SWITCHDEV && pf->kind == IBFAKE_ROCE;
	int err = 0;

	if (on)
		err = ibfake_add_reps(pf, pci_num_vf(pf->pdev));
	else
		ibfake_remove_reps(pf);
	if (err)
		return err;
	pf->switchdev = on;
	eswitch->mode = mode;
	return 0;
}

static const struct devlink_ops ibfake_devlink_ops = {
	.eswitch_mode_get = ibfake_eswitch_mode_get,
	.eswitch_mode_set = ibfake_eswitch_mode_set,
};

static void ibfake_remove_devlink(void *data)
{
	devlink_unregister(data);
	devlink_free(data);
}

static int ibfake_add_devlink(struct device *dev, struct ibfake_hca *pf)
{
	struct devlink *devlink;

	devlink = devlink_alloc(&ibfake_devlink_ops,
				sizeof(struct ibfake_eswitch), dev);
	if (!devlink)
		return -ENOMEM;
	((struct ibfake_eswitch *)devlink_priv(devlink))->pf = pf;
	devlink_register(devlink);
	return devm_add_action_or_reset(dev, ibfake_remove_devlink, devlink);
}

/* The PF's own interface is the uplink of the switch. */
static int ibfake_get_switch_id(struct net_device *netdev,
				struct netdev_phys_item_id *id)
{
	struct ibfake_hca *hca = ((struct ibfake_nic *)netdev_priv(netdev))->hca;

	return hca && hca->switchdev ? ibfake_switch_id(hca, id) : -EOPNOTSUPP;
}

/* As igb has it, a VF that its PF trusts changes what the PF has on record. */
static int ibfake_set_mac(struct net_device *netdev, void *address)
{
	struct ibfake_hca *hca = ((struct ibfake_nic *)netdev_priv(netdev))->hca;
	struct ibfake_vf *vf = ibfake_own_vf(hca ? hca->pdev : NULL);
	int err = eth_mac_addr(netdev, address);

	if (!err && vf && vf->trusted)
		ether_addr_copy(vf->mac, netdev->dev_addr);
	return err;
}

static const struct net_device_ops ibfake_netdev_ops = {
	.ndo_get_vf_config = ibfake_get_vf_config,
	.ndo_set_vf_mac = ibfake_set_vf_mac,
	.ndo_set_vf_vlan = ibfake_set_vf_vlan,
	.ndo_set_vf_rate = ibfake_set_vf_rate,
	.ndo_set_vf_spoofchk = ibfake_set_vf_spoofchk,
	.ndo_set_vf_trust = ibfake_set_vf_trust,
	.ndo_set_vf_link_state = ibfake_set_vf_link_state,
	.ndo_get_port_parent_id = ibfake_get_switch_id,
	.ndo_setup_tc = ibfake_setup_tc,
	.ndo_open = ibfake_open,
	.ndo_stop = ibfake_stop,
	.ndo_start_xmit = ibfake_xmit,
	.ndo_get_stats64 = ibfake_get_stats64,
	.ndo_set_mac_address = ibfake_set_mac,
	.ndo_validate_addr = eth_validate_addr,
};

/* ethtool -S: the packets and bytes of each queue. */

static int ibfake_nic_sset_count(struct net_device *netdev, int sset)
{
	return sset == ETH_SS_STATS ? 2 * IBFAKE_MAX_QUEUES : -EOPNOTSUPP;
}

static void ibfake_nic_strings(struct net_device *netdev, u32 sset, u8 *strings)
{
	int i;

	for (i = 0; sset == ETH_SS_STATS && i < IBFAKE_MAX_QUEUES; i++) {
		ethtool_sprintf(&strings, "tx%d_packets", i);
		ethtool_sprintf(&strings, "tx%d_bytes", i);
	}
}

static void ibfake_nic_stats(struct net_device *netdev,
			     struct ethtool_stats *stats, u64 *values)
{
	struct ibfake_nic *nic = netdev_priv(netdev);
	int i;

	for (i = 0; i < IBFAKE_MAX_QUEUES; i++) {
		*values++ = atomic64_read(&nic->sent[i].packets);
		*values++ = atomic64_read(&nic->sent[i].bytes);
	}
}

static const struct ethtool_ops ibfake_ethtool_ops = {
	.get_link = ethtool_op_get_link,
	.get_sset_count = ibfake_nic_sset_count,
	.get_strings = ibfake_nic_strings,
	.get_ethtool_stats = ibfake_nic_stats,
};

/*
 * Data center bridging as IEEE has it: what is set is kept. Of the APP table
 * the kernel's own is all there is, which the kernel empties when the interface
 * moves (dcbnl.c:dcbnl_netdevice_event).
 */

static int ibfake_getets(struct net_device *netdev, struct ieee_ets *ets)
{
	*ets = ((struct ibfake_nic *)netdev_priv(netdev))->ets;
	ets->ets_cap = IEEE_8021QAZ_MAX_TCS;
	return 0;
}

static int ibfake_setets(struct net_device *netdev, struct ieee_ets *ets)
{
	((struct ibfake_nic *)netdev_priv(netdev))->ets = *ets;
	return 0;
}

static int ibfake_getpfc(struct net_device *netdev, struct ieee_pfc *pfc)
{
	*pfc = ((struct ibfake_nic *)netdev_priv(netdev))->pfc;
	pfc->pfc_cap = IEEE_8021QAZ_MAX_TCS;
	return 0;
}

static int ibfake_setpfc(struct net_device *netdev, struct ieee_pfc *pfc)
{
	((struct ibfake_nic *)netdev_priv(netdev))->pfc = *pfc;
	return 0;
}

static u8 ibfake_getdcbx(struct net_device *netdev)
{
	return ((struct ibfake_nic *)netdev_priv(netdev))->dcbx;
}

/* No firmware speaks DCBX here, and CEE is not offered. */
static u8 ibfake_setdcbx(struct net_device *netdev, u8 mode)
{
	if (mode != (DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE))
		return 1;
	((struct ibfake_nic *)netdev_priv(netdev))->dcbx = mode;
	return 0;
}

static const struct dcbnl_rtnl_ops ibfake_dcbnl_ops = {
	.ieee_getets = ibfake_getets,
	.ieee_setets = ibfake_setets,
	.ieee_getpfc = ibfake_getpfc,
	.ieee_setpfc = ibfake_setpfc,
	.getdcbx = ibfake_getdcbx,
	.setdcbx = ibfake_setdcbx,
};

/*
 * Without rtnl_link_ops, and so without being set up by "ip link add", the
 * interface counts as hardware: a namespace that dies hands it back to init
 * (default_device_exit_net()) where it would delete a dummy or a veth.
 */
static struct net_device *ibfake_create_netdev(struct device *parent, int index,
					       unsigned int port)
{
	const u8 mac[ETH_ALEN] = { 0x02, 0xc9, 0x02 + port, index >> 16, index >> 8, index };
	struct pci_dev *pdev = dev_is_pci(parent) ? to_pci_dev(parent) : NULL;
	struct ibfake_vf *vf = ibfake_own_vf(pdev);
	struct net_device *netdev;
	struct ibfake_nic *nic;
	int err;

	netdev = alloc_etherdev_mqs(sizeof(*nic), IBFAKE_MAX_QUEUES,
				    IBFAKE_MAX_QUEUES);
	if (!netdev)
		return ERR_PTR(-ENOMEM);
	nic = netdev_priv(netdev);
	nic->netdev = netdev;
	nic->dcbx = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;
	INIT_DELAYED_WORK(&nic->trained, ibfake_trained);

	SET_NETDEV_DEV(netdev, parent);
	/* so that udev has another name for each interface of a function */
	netdev->dev_port = (index >> 16) * ports + port - 1;
	strscpy(netdev->name, "roce%d", sizeof(netdev->name));
	netdev->netdev_ops = &ibfake_netdev_ops;
	netdev->ethtool_ops = &ibfake_ethtool_ops;
	netdev->dcbnl_ops = &ibfake_dcbnl_ops;
	/* as of one whose carrier has come and gone, not "unknown" */
	netdev->operstate = IF_OPER_UP;
	netdev->max_mtu = IBFAKE_MAX_MTU;
	netdev->priv_flags |= IFF_LIVE_ADDR_CHANGE;
	if (!vf)
		eth_hw_addr_set(netdev, mac);
	else if (is_zero_ether_addr(vf->mac))
		eth_hw_addr_random(netdev); /* so it has no permanent address */
	else
		eth_hw_addr_set(netdev, vf->mac);

	err = netif_set_real_num_queues(netdev, IBFAKE_QUEUES, IBFAKE_QUEUES);
	if (!err)
		err = register_netdev(netdev);
	if (err) {
		free_netdev(netdev);
		return ERR_PTR(err);
	}
	if (vf)
		rcu_assign_pointer(vf->netdev, netdev);
	return netdev;
}

/*
 * What ethtool sets of an interface beside what its own driver lets it: rings,
 * channels and private flags, as mlx5 has them for Ethernet and for IPoIB. They
 * are kept as long as the interface is, and of them only the channels of our own
 * interfaces change anything: the queues. The RTNL lock is held wherever they are.
 */
struct ibfake_settings {
	const struct ethtool_ops *own;
	struct ethtool_ops ops;
	u32 rx_pending, tx_pending, channels, flags;
};

static struct ibfake_settings *ibfake_settings(struct net_device *netdev)
{
	return container_of(netdev->ethtool_ops, struct ibfake_settings, ops);
}

static void ibfake_get_ringparam(struct net_device *netdev,
				 struct ethtool_ringparam *ring,
				 struct kernel_ethtool_ringparam *kernel_ring,
				 struct netlink_ext_ack *extack)
{
	ring->rx_max_pending = 8192;
	ring->tx_max_pending = 8192;
	ring->rx_pending = ibfake_settings(netdev)->rx_pending;
	ring->tx_pending = ibfake_settings(netdev)->tx_pending;
}

static int ibfake_set_ringparam(struct net_device *netdev,
				struct ethtool_ringparam *ring,
				struct kernel_ethtool_ringparam *kernel_ring,
				struct netlink_ext_ack *extack)
{
	ibfake_settings(netdev)->rx_pending = ring->rx_pending;
	ibfake_settings(netdev)->tx_pending = ring->tx_pending;
	return 0;
}

static void ibfake_get_channels(struct net_device *netdev,
				struct ethtool_channels *channels)
{
	channels->max_combined = IBFAKE_MAX_QUEUES;
	channels->combined_count = ibfake_settings(netdev)->channels;
}

static int ibfake_set_channels(struct net_device *netdev,
			       struct ethtool_channels *channels)
{
	unsigned int count = channels->combined_count;
	int err = 0;

	if (netdev->netdev_ops == &ibfake_netdev_ops)
		err = netif_set_real_num_queues(netdev, count, count);
	if (!err)
		ibfake_settings(netdev)->channels = count;
	return err;
}

static const char ibfake_flags[][ETH_GSTRING_LEN] = {
	"rx_cqe_moder",
	"rx_striding_rq",
};

static int ibfake_get_sset_count(struct net_device *netdev, int sset)
{
	const struct ethtool_ops *own = ibfake_settings(netdev)->own;

	if (sset == ETH_SS_PRIV_FLAGS)
		return ARRAY_SIZE(ibfake_flags);
	return own->get_sset_count ? own->get_sset_count(netdev, sset) : -EOPNOTSUPP;
}

static void ibfake_get_strings(struct net_device *netdev, u32 sset, u8 *strings)
{
	const struct ethtool_ops *own = ibfake_settings(netdev)->own;

	if (sset == ETH_SS_PRIV_FLAGS)
		memcpy(strings, ibfake_flags, sizeof(ibfake_flags));
	else if (own->get_strings)
		own->get_strings(netdev, sset, strings);
}

static u32 ibfake_get_priv_flags(struct net_device *netdev)
{
	return ibfake_settings(netdev)->flags;
}

static int ibfake_set_priv_flags(struct net_device *netdev, u32 flags)
{
	ibfake_settings(netdev)->flags = flags;
	return 0;
}

static int ibfake_add_settings(struct net_device *netdev)
{
	struct ibfake_settings *s;

	if (netdev->ethtool_ops->get_ringparam == ibfake_get_ringparam)
		return 0; /* it comes from another namespace */
	s = kzalloc(sizeof(*s), GFP_KERNEL);
	if (!s)
		return -ENOMEM;
	s->own = netdev->ethtool_ops;
	s->ops = *s->own;
	s->ops.get_ringparam = ibfake_get_ringparam;
	s->ops.set_ringparam = ibfake_set_ringparam;
	s->ops.get_channels = ibfake_get_channels;
	s->ops.set_channels = ibfake_set_channels;
	s->ops.get_sset_count = ibfake_get_sset_count;
	s->ops.get_strings = ibfake_get_strings;
	s->ops.get_priv_flags = ibfake_get_priv_flags;
	s->ops.set_priv_flags = ibfake_set_priv_flags;
	s->rx_pending = 1024;
	s->tx_pending = 1024;
	s->channels = IBFAKE_QUEUES;
	s->flags = 1;
	netdev->ethtool_ops = &s->ops;
	return 0;
}

static void ibfake_remove_settings(struct net_device *netdev)
{
	struct ibfake_settings *s;

	if (netdev->ethtool_ops->get_ringparam != ibfake_get_ringparam)
		return;
	s = ibfake_settings(netdev);
	netdev->ethtool_ops = s->own;
	kfree(s);
}

/* ib_ipoib's interfaces are none of ours, but all of them are ours to serve. */
static int ibfake_netdev_event(struct notifier_block *block,
			       unsigned long event, void *info)
{
	struct net_device *netdev = netdev_notifier_info_to_dev(info);

	if (netdev->type != ARPHRD_INFINIBAND &&
	    netdev->netdev_ops != &ibfake_netdev_ops)
		return NOTIFY_DONE;
	if (event == NETDEV_REGISTER)
		return notifier_from_errno(ibfake_add_settings(netdev));
	/* one that moves is unregistered in one namespace, too */
	if (event == NETDEV_UNREGISTER &&
	    netdev->reg_state == NETREG_UNREGISTERING)
		ibfake_remove_settings(netdev);
	return NOTIFY_DONE;
}

static struct notifier_block ibfake_netdevs = {
	.notifier_call = ibfake_netdev_event,
};

static void ibfake_destroy_netdev(void *data)
{
	struct net_device *netdev = data;
	struct ibfake_vf *vf = ibfake_netdev_own_vf(netdev);

	if (vf)
		RCU_INIT_POINTER(vf->netdev, NULL);
	unregister_netdev(netdev);
	free_netdev(netdev);
}

static void ibfake_dealloc_ibdev(void *data)
{
	struct ibfake_hca *hca = data;

	ib_dealloc_device(&hca->ibdev);
}

/* Our own interfaces know their HCA while it is registered. */
static void ibfake_tell_netdevs(struct ibfake_hca *hca, struct ibfake_hca *registered)
{
	struct net_device *netdev;
	int i;

	rtnl_lock();
	for (i = 0; i < IBFAKE_MAX_PORTS; i++) {
		netdev = hca->netdevs[i];
		if (netdev && netdev->netdev_ops == &ibfake_netdev_ops)
			((struct ibfake_nic *)netdev_priv(netdev))->hca = registered;
	}
	rtnl_unlock();
}

static void ibfake_unregister_ibdev(void *data)
{
	struct ibfake_hca *hca = data;

	ibfake_tell_netdevs(hca, NULL);
	ib_unregister_device(&hca->ibdev);
}

static void ibfake_init_ibdev(struct ibfake_hca *hca, struct device *parent)
{
	struct ib_device *ibdev = &hca->ibdev;
	struct ibfake_vf *vf = ibfake_own_vf(hca->pdev);

	ibdev->dev.parent = parent;
	ibdev->node_type = RDMA_NODE_IB_CA;
	if (hca->kind == IBFAKE_MIN)
		ibdev->node_type = RDMA_NODE_UNSPECIFIED;
	ibdev->phys_port_cnt = ports;
	ibdev->num_comp_vectors = 1;
	ibdev->node_guid = cpu_to_be64(IBFAKE_GUID_BASE + hca->index);
	strscpy(ibdev->node_desc, "ibfake", sizeof(ibdev->node_desc));
	if (vf) {
		ibdev->node_guid = cpu_to_be64(vf->node_guid);
		hca->port_guid = vf->port_guid;
	}

	ib_set_device_ops(ibdev, &ibfake_min_ops);
	if (disassoc)
		ib_set_device_ops(ibdev, &ibfake_disassociate_ops);
	if (hca->kind != IBFAKE_MIN)
		ib_set_device_ops(ibdev, &ibfake_verbs_ops);
	if (hca->kind == IBFAKE_ROCE)
		ib_set_device_ops(ibdev, &ibfake_roce_ops);
	if (ibfake_is_pf(hca))
		ib_set_device_ops(ibdev, &ibfake_pf_ops);
	if (hfi && hca->kind == IBFAKE_IB)
		ib_set_device_ops(ibdev, &ibfake_hfi_ops);
}

/* As hfi1's, the character device has no parent device. */

static struct class ibfake_hfi_class = {
	.name = "hfi1_user",
};

static const struct file_operations ibfake_hfi_fops = {
	.owner = THIS_MODULE,
};

static int ibfake_hfi_major;

static void ibfake_destroy_hfi(void *data)
{
	struct ibfake_hca *hca = data;

	device_destroy(&ibfake_hfi_class, MKDEV(ibfake_hfi_major, hca->index));
}

static int ibfake_create_hfi(struct ibfake_hca *hca, struct device *dev)
{
	struct device *made = device_create(&ibfake_hfi_class, NULL,
					    MKDEV(ibfake_hfi_major, hca->index), NULL,
					    "%s", dev_name(&hca->ibdev.dev));

	if (IS_ERR(made))
		return PTR_ERR(made);
	return devm_add_action_or_reset(dev, ibfake_destroy_hfi, hca);
}

static int ibfake_register_hfi(void)
{
	int ret = class_register(&ibfake_hfi_class);

	if (ret)
		return ret;
	ret = register_chrdev(0, "hfi1", &ibfake_hfi_fops);
	if (ret < 0) {
		class_unregister(&ibfake_hfi_class);
		return ret;
	}
	ibfake_hfi_major = ret;
	return 0;
}

static void ibfake_unregister_hfi(void)
{
	if (!hfi)
		return;
	unregister_chrdev(ibfake_hfi_major, "hfi1");
	class_unregister(&ibfake_hfi_class);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
static struct ib_device *ibfake_add_sub_dev(struct ib_device *parent,
					    enum rdma_nl_dev_type type,
					    const char *sub_name)
{
	struct ibfake_hca *hca = to_hca(parent), *sub;
	int err;

	if (type != RDMA_DEVICE_TYPE_SMI)
		return ERR_PTR(-EOPNOTSUPP);
	sub = ib_alloc_device(ibfake_hca, ibdev);
	if (!sub)
		return ERR_PTR(-ENOMEM);
	sub->kind = hca->kind;
	sub->index = hca->index;
	sub->pdev = hca->pdev;
	sub->sub = true;
	ibfake_init_ibdev(sub, parent->dev.parent);
	sub->ibdev.type = type;
	err = ib_register_device(&sub->ibdev, sub_name, NULL);
	if (err) {
		ib_dealloc_device(&sub->ibdev);
		return ERR_PTR(err);
	}
	return &sub->ibdev;
}

static void ibfake_del_sub_dev(struct ib_device *sub)
{
	ib_unregister_device(sub);
	ib_dealloc_device(sub);
}

static const struct ib_device_ops ibfake_sub_ops = {
	.add_sub_dev = ibfake_add_sub_dev,
	.del_sub_dev = ibfake_del_sub_dev,
};

#else
static const struct ib_device_ops ibfake_sub_ops;
#endif

/* 7.3 exports no ib_add_sub_device any more. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0) && LINUX_VERSION_CODE < KERNEL_VERSION(7, 3, 0)
/* It goes when the HCA is unregistered. */
static int ibfake_add_smi(struct ibfake_hca *hca)
{
	return ib_add_sub_device(&hca->ibdev, RDMA_DEVICE_TYPE_SMI, "smi%d");
}
#else
static int ibfake_add_smi(struct ibfake_hca *hca)
{
	return -EOPNOTSUPP;
}
#endif

static void ibfake_put_netdev(void *data)
{
	struct net_device *netdev = data;

	dev_put(netdev);
}

/* An interface of another driver, whose packets arrive; it stays when the HCA goes. */
static int ibfake_take_netdev(struct device *dev, const char *nic,
			      struct net_device **netdev)
{
	*netdev = dev_get_by_name(&init_net, nic);
	if (!*netdev) {
		dev_err(dev, "no interface %s\n", nic);
		return -ENODEV;
	}
	return devm_add_action_or_reset(dev, ibfake_put_netdev, *netdev);
}

static bool ibfake_is_beside(struct device *dev)
{
	return !dev_is_pci(dev) && dev->parent && dev_is_pci(dev->parent);
}

/* The interface that the driver of a PCI function has made. */
static int ibfake_take_beside(struct device *dev, struct net_device **netdev)
{
	struct net_device *found;

	rtnl_lock();
	for_each_netdev(&init_net, found) {
		if (found->dev.parent != dev->parent)
			continue;
		dev_hold(found);
		*netdev = found;
		break;
	}
	rtnl_unlock();
	if (!*netdev) {
		dev_err(dev, "%s has no interface\n", dev_name(dev->parent));
		return -ENODEV;
	}
	return devm_add_action_or_reset(dev, ibfake_put_netdev, *netdev);
}

/*
 * Each action undoes the deed before it; a failed probe and unbind run them,
 * last first. The RDMA device goes before the interface, to which it holds a
 * reference.
 */
static int ibfake_probe_netdev(struct device *dev, int index, unsigned int port,
			       struct net_device **netdev)
{
	unsigned int roce = (index - nib) * ports + port - 1;

	if (ibfake_is_beside(dev))
		return ibfake_take_beside(dev, netdev);
	if (!dev_is_pci(dev) && roce < nic_count)
		return ibfake_take_netdev(dev, nics[roce], netdev);
	*netdev = ibfake_create_netdev(dev, index, port);
	if (IS_ERR(*netdev))
		return PTR_ERR(*netdev);
	return devm_add_action_or_reset(dev, ibfake_destroy_netdev, *netdev);
}

static int ibfake_probe(struct device *dev, enum ibfake_kind kind, int index)
{
	struct net_device *netdevs[IBFAKE_MAX_PORTS] = {};
	struct ibfake_hca *hca;
	unsigned int port;
	int err;

	for (port = 1; kind == IBFAKE_ROCE && port <= ports; port++) {
		err = ibfake_probe_netdev(dev, index, port, &netdevs[port - 1]);
		if (err)
			return err;
	}

	hca = ib_alloc_device(ibfake_hca, ibdev);
	if (!hca)
		return -ENOMEM;
	err = devm_add_action_or_reset(dev, ibfake_dealloc_ibdev, hca);
	if (err)
		return err;

	hca->kind = kind;
	hca->index = index;
	memcpy(hca->netdevs, netdevs, sizeof(netdevs));
	if (dev_is_pci(dev))
		hca->pdev = to_pci_dev(dev);
	dev_set_drvdata(dev, hca);
	ibfake_init_ibdev(hca, ibfake_is_beside(dev) ? dev->parent : dev);
	for (port = 1; kind == IBFAKE_ROCE && port <= ports; port++) {
		err = ib_device_set_netdev(&hca->ibdev, netdevs[port - 1], port);
		if (err)
			return err;
	}

	if (ibfake_is_pf(hca)) {
		err = ibfake_add_devlink(dev, hca);
		if (err)
			return err;
	}

	if (smi && kind == IBFAKE_IB)
		ib_set_device_ops(&hca->ibdev, &ibfake_sub_ops);
	/* no dma_device: the queues are lists, nothing is mapped */
	err = ib_register_device(&hca->ibdev, name, NULL);
	if (err)
		return err;
	ibfake_tell_netdevs(hca, hca);
	err = devm_add_action_or_reset(dev, ibfake_unregister_ibdev, hca);
	if (!err && smi && kind == IBFAKE_IB)
		err = ibfake_add_smi(hca);
	if (!err && hfi && kind == IBFAKE_IB)
		err = ibfake_create_hfi(hca, dev);
	return err;
}

static int ibfake_platform_probe(struct platform_device *pdev)
{
	const enum ibfake_kind *kind = dev_get_platdata(&pdev->dev);

	return ibfake_probe(&pdev->dev, *kind, pdev->id);
}

static int ibfake_pci_probe(struct pci_dev *pdev,
			    const struct pci_device_id *id)
{
	bool edu = !pdev->is_physfn && !pdev->is_virtfn;
	enum ibfake_kind kind = edu && eduib ? IBFAKE_IB : id->driver_data;
	int n, err = ibfake_probe(&pdev->dev, kind, pci_dev_id(pdev));

	for (n = 1; !err && edu && n < devices; n++)
		err = ibfake_probe(&pdev->dev, kind, n << 16 | pci_dev_id(pdev));
	return err;
}

/* A PF's VFs go before it does. */
static void ibfake_pci_remove(struct pci_dev *pdev)
{
	if (!pdev->is_physfn)
		return;
	ibfake_remove_reps(pci_get_drvdata(pdev));
	pci_disable_sriov(pdev);
}

/* What the PF keeps of its VFs goes with them. */
static int ibfake_pci_sriov_configure(struct pci_dev *pdev, int count)
{
	struct ibfake_hca *hca = pci_get_drvdata(pdev);
	int ret, err;

	if (!count)
		ibfake_remove_reps(hca);
	ret = pci_sriov_configure_simple(pdev, count);
	if (ret > 0 && hca->switchdev) {
		err = ibfake_add_reps(hca, ret);
		if (err)
			dev_err(&pdev->dev, "no representors: %d\n", err);
	}
	if (!count && !ret) {
		rtnl_lock();
		memset(hca->vfs, 0, sizeof(hca->vfs));
		rtnl_unlock();
	}
	return ret;
}

static const struct pci_device_id ibfake_pci_ids[] = {
	/* QEMU's edu, and its nvme with its own id and with Intel's */
	{ PCI_DEVICE(0x1234, 0x11e8), .driver_data = IBFAKE_ROCE },
	{ PCI_DEVICE(0x1b36, 0x0010), .driver_data = IBFAKE_ROCE },
	{ PCI_DEVICE(0x8086, 0x5845), .driver_data = IBFAKE_IB },
	{}
};

static struct pci_driver ibfake_pci_driver = {
	.name = "ibfake",
	.id_table = ibfake_pci_ids,
	.probe = ibfake_pci_probe,
	.remove = ibfake_pci_remove,
	.sriov_configure = ibfake_pci_sriov_configure,
};

static const char ibfake_device[] = "ibfake";

static const struct platform_device_id ibfake_platform_ids[] = {
	{ .name = "ibfake" },
	{}
};

static struct platform_driver ibfake_driver = {
	.probe = ibfake_platform_probe,
	.id_table = ibfake_platform_ids,
	.driver = {
		.name = "ibfake", /* or hfi1 */
		.probe_type = PROBE_FORCE_SYNCHRONOUS,
	},
};

static int ibfake_find_beside(struct device *dev, void *data)
{
	struct platform_device **pdev = data;

	if (dev->bus != &platform_bus_type ||
	    strcmp(to_platform_device(dev)->name, ibfake_device))
		return 0;
	*pdev = to_platform_device(dev);
	return 1;
}

/* The HCA comes after what it stands on, and goes before that. */
static int ibfake_beside_event(struct notifier_block *block,
			       unsigned long event, void *data)
{
	const enum ibfake_kind kind = IBFAKE_ROCE;
	struct platform_device *pdev;
	struct device *dev = data;
	unsigned int i;

	for (i = 0; i < beside_count; i++)
		if (dev->driver && !strcmp(dev->driver->name, beside[i]))
			break;
	if (i == beside_count)
		return NOTIFY_DONE;
	if (event == BUS_NOTIFY_BOUND_DRIVER) {
		pdev = platform_device_register_data(dev, ibfake_device,
						     pci_dev_id(to_pci_dev(dev)),
						     &kind, sizeof(kind));
		if (IS_ERR(pdev))
			dev_err(dev, "no HCA beside it: %ld\n", PTR_ERR(pdev));
	} else if (event == BUS_NOTIFY_UNBIND_DRIVER) {
		if (device_for_each_child(dev, &pdev, ibfake_find_beside))
			platform_device_unregister(pdev);
	}
	return NOTIFY_DONE;
}

static struct notifier_block ibfake_beside = {
	.notifier_call = ibfake_beside_event,
};

static void ibfake_remove_hcas(void)
{
	while (hca_count)
		platform_device_unregister(hcas[--hca_count]);
}

static int ibfake_add_hca(enum ibfake_kind kind)
{
	struct platform_device *pdev;

	pdev = platform_device_register_data(NULL, ibfake_device,
					     hca_count, &kind, sizeof(kind));
	if (IS_ERR(pdev))
		return PTR_ERR(pdev);
	hcas[hca_count++] = pdev;

	/* a failed probe is no failure of the registration */
	return pdev->dev.driver ? 0 : -ENODEV;
}

static int ibfake_add_hcas(enum ibfake_kind kind, unsigned int count)
{
	int err;

	for (; count; count--) {
		err = ibfake_add_hca(kind);
		if (err)
			return err;
	}
	return 0;
}

/*
 * A kernel user of every HCA, as a file system is one: a move waits until its
 * remove() returns, uninterruptibly (device.c:disable_device).
 */
static int ibfake_user_add(struct ib_device *ibdev)
{
	return 0;
}

static void ibfake_user_remove(struct ib_device *ibdev, void *data)
{
	struct ibfake_hca *hca = container_of(ibdev, struct ibfake_hca, ibdev);

	if (ibdev->ops.owner != THIS_MODULE)
		return;
	while (READ_ONCE(hold) == hca->index)
		msleep(20);
}

static struct ib_client ibfake_user = {
	.name = "ibfake_user",
	.add = ibfake_user_add,
	.remove = ibfake_user_remove,
};

static int __init ibfake_add_all(void)
{
	int err;

	err = ibfake_add_hcas(IBFAKE_IB, nib);
	if (!err)
		err = ibfake_add_hcas(IBFAKE_ROCE, nroce);
	if (!err)
		err = ibfake_add_hcas(IBFAKE_MIN, nmin);
	if (err)
		ibfake_remove_hcas();
	return err;
}

static int __init ibfake_init(void)
{
	int err;

	if (nib > IBFAKE_MAX_HCAS || nroce > IBFAKE_MAX_HCAS ||
	    nmin > IBFAKE_MAX_HCAS || nib + nroce + nmin > IBFAKE_MAX_HCAS) {
		pr_err("ibfake: more than %d HCAs\n", IBFAKE_MAX_HCAS);
		return -EINVAL;
	}
	if (!ports || ports > IBFAKE_MAX_PORTS) {
		pr_err("ibfake: not 1 to %d ports\n", IBFAKE_MAX_PORTS);
		return -EINVAL;
	}

	if (hfi)
		ibfake_driver.driver.name = "hfi1";
	err = hfi ? ibfake_register_hfi() : 0;
	if (err)
		return err;
	err = register_netdevice_notifier(&ibfake_netdevs);
	if (err)
		goto unregister_hfi;
	err = ib_register_client(&ibfake_user);
	if (err)
		goto unregister_notifier;
	err = platform_driver_register(&ibfake_driver);
	if (err)
		goto unregister_client;
	err = ibfake_add_all();
	if (err)
		goto unregister_platform;
	err = bus_register_notifier(&pci_bus_type, &ibfake_beside);
	if (err)
		goto remove_hcas;
	err = pci_register_driver(&ibfake_pci_driver);
	if (err)
		goto unregister_beside;
	return 0;

unregister_beside:
	bus_unregister_notifier(&pci_bus_type, &ibfake_beside);
remove_hcas:
	ibfake_remove_hcas();
unregister_platform:
	platform_driver_unregister(&ibfake_driver);
unregister_client:
	ib_unregister_client(&ibfake_user);
unregister_notifier:
	unregister_netdevice_notifier(&ibfake_netdevs);
unregister_hfi:
	ibfake_unregister_hfi();
	return err;
}

static void __exit ibfake_exit(void)
{
	pci_unregister_driver(&ibfake_pci_driver);
	bus_unregister_notifier(&pci_bus_type, &ibfake_beside);
	ibfake_remove_hcas();
	platform_driver_unregister(&ibfake_driver);
	ib_unregister_client(&ibfake_user);
	unregister_netdevice_notifier(&ibfake_netdevs);
	ibfake_unregister_hfi();
}

module_init(ibfake_init);
module_exit(ibfake_exit);

MODULE_DESCRIPTION("Stub RDMA devices that can be moved between network namespaces");
MODULE_LICENSE("Dual MIT/GPL");
