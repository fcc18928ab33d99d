// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * Which thread sent the packet that a CPU is receiving. packets.rs describes the rules and their purpose.
 */
#include "origins.h"
#include "packets.h"
#include "wakers.h"

LICENSE;

/* For a socket that may only send acknowledgements: the kernel marks those packets. */
#define TRUESIZE_OF_PURE_ACK 2

#define IFF_LOOPBACK 0x8

/* Packets that a device can take as one: large packets of TCP, of TCP over IPv6, and of UDP. */
#define TAKES_LARGE (1ULL << 16 | 1ULL << 20 | 1ULL << 33)

/* Calls in which a thread sends no data of its own. */
#if defined(__TARGET_ARCH_x86)
#define SYS_read 0
#define SYS_readv 19
#define SYS_recvfrom 45
#define SYS_recvmsg 47
#define SYS_recvmmsg 299
#elif defined(__TARGET_ARCH_arm64)
#define SYS_read 63
#define SYS_readv 65
#define SYS_recvfrom 207
#define SYS_recvmsg 212
#define SYS_recvmmsg 243
#endif

/* Whether this host receives the sent data, as the same packet. */
static inline bool stays_here(struct net_device *device)
{
	if (device->flags & IFF_LOOPBACK)
		return true;
	return exists(device->netdev_ops->ndo_get_peer_dev) && device->netdev_ops->ndo_get_peer_dev;
}

/* A packet that is split on its way arrives as different packets. */
static inline bool is_cut(struct sk_buff *packet, struct net_device *device)
{
	u32 length = packet->len;

	return unlikely(length > device->mtu + 64) && !(device->flags & IFF_LOOPBACK) &&
	       (device->features & TAKES_LARGE) != TAKES_LARGE;
}

/* Whether the running thread only receives data. In that case, the data that it sends during the call was left by others. */
static inline bool is_receiving(void)
{
#if defined(__TARGET_ARCH_x86) || defined(__TARGET_ARCH_arm64)
	if (!chosen(knows_calls))
		return false;
	struct task_struct *task = bpf_get_current_task_btf();

	if (task->flags & (PF_KTHREAD | PF_USER_WORKER | PF_IO_WORKER))
		return false;
	struct pt_regs *registers = bpf_task_pt_regs(task);
#if defined(__TARGET_ARCH_x86)
	u64 number = registers->orig_ax;
#else
	u64 number = (u32)registers->syscallno;
#endif
	return number == SYS_read || number == SYS_readv || number == SYS_recvfrom || number == SYS_recvmsg ||
	       number == SYS_recvmmsg;
#else
	return false;
#endif
}

/* net_dev_queue(packet) */
SEC("tp_btf") int fxtrec_queue(u64 *args)
{
	struct sk_buff *packet = (void *)args[0];
	struct net_device *device = packet->dev;
	u32 in_interrupt;

	if (!stays_here(device))
		return 0;
	u32 sender = current_or_interrupt(&in_interrupt);
	u64 sent, socket = number_of(packet->sk);
	struct sent *of_socket = sent_of(&sockets, socket);

	if (!in_interrupt) {
		u64 known = of_socket->whose;
		bool carries = packet->truesize != TRUESIZE_OF_PURE_ACK;

		sent = bpf_ktime_get_ns();
		if (socket && known == whose(socket, sender)) {
			if (carries)
				of_socket->at = sent;
		} else if (socket && is_of(known, socket) && carries && is_receiving()) {
			sender = sender_of(known);
			sent = of_socket->at;
		} else if (socket && (carries || !is_of(known, socket))) {
			put(of_socket, socket, sender, sent);
		}
	} else if (in_interrupt & ~SOFT_BITS) {
		sender = 0;
		sent = 0;
	} else if (socket) {
		/* A packet without a sender may have waited for the address of its next host, which this packet contains. */
		bool is_known = is_of(of_socket->whose, socket);

		sender = is_known ? sender_of(of_socket->whose) : 0;
		sent = of_socket->at;
	} else {
		struct origins *own = origins_of(bpf_get_smp_processor_id());

		sender = own->packet ? own->sender : 0;
		sent = own->sent;
	}
	u64 address = number_of(packet);
	struct sent *of_packet = sent_of(&packets, address);
	if (sender && !is_cut(packet, device))
		put(of_packet, address, sender, sent);
	else if (is_of(of_packet->whose, address))
		of_packet->whose = 0;
	return 0;
}

/*
 * Whether this packet is handled before the next one is seen. All packets of a list are
 * seen first, so which of several wakes a thread is unknown later.
 */
static inline bool is_alone(struct sk_buff *packet, struct origins *own)
{
	struct sk_buff *list = packet->prev;
	bool began = !own->goes_on;

	own->goes_on = 0;
	if (!list)
		return true;
	/* The packet was removed from its list but still points into it; if it points to itself, it was the only one. */
	bool is_last = list->next == list;
	own->goes_on = !is_last;
	return is_last && began;
}

static inline void keep_header(struct sk_buff *packet, struct origins *own)
{
	u32 bytes = packet->len - packet->data_len;

	own->protocol = packet->protocol;
	if (bytes > HEADER_BYTES)
		bytes = HEADER_BYTES;
	as_made(bytes);
	if (bytes < LEAST_HEADER_BYTES || bytes > HEADER_BYTES)
		return;
	if (bpf_probe_read_kernel(own->header, bytes, packet->data) == 0)
		own->header_bytes = bytes;
}

/* netif_receive_skb(packet) */
SEC("tp_btf") int fxtrec_receive(u64 *args)
{
	struct sk_buff *packet = (void *)args[0];
	struct net_device *device = packet->dev;
	struct origins *own = origins_of(bpf_get_smp_processor_id());
	u64 address = number_of(packet);
	struct sent *of_packet = sent_of(&packets, address);
	u64 known = of_packet->whose, sender = 0;

	if (is_of(known, address)) {
		u64 sent = of_packet->at;

		barrier();
		/* A packet of another CPU may take the slot at any time. */
		if (*(volatile u64 *)&of_packet->whose == known && stays_here(device)) {
			sender = sender_of(known);
			own->sent = sent;
		}
		of_packet->whose = 0;
	} else if (own->packet == address && own->device != number_of(device)) {
		/* A bridge passes up packets that arrived at one of its ports. */
		sender = own->sender;
	}
	own->header_bytes = 0;
	if (!is_alone(packet, own))
		sender = 0;
	else if (!sender)
		keep_header(packet, own);
	own->packet = address;
	own->device = (u64)device;
	own->sender = sender;
	return 0;
}

/* inet_sock_set_state(socket, before, after): the memory of a closed socket is reused for another. */
SEC("tp_btf") int fxtrec_closed(u64 *args)
{
	u64 socket = number_of((void *)args[0]);
	struct sent *of_socket = sent_of(&sockets, socket);

	if ((u32)args[2] == TCP_CLOSE && is_of(of_socket->whose, socket))
		of_socket->whose = 0;
	return 0;
}
