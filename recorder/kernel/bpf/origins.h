/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * The events that each CPU currently handles in interrupts, for the program on wake-ups: a hard interrupt may occur in the middle of a soft
 * one, so there are two of them. See origins.rs.
 */
#ifndef FXTREC_ORIGINS_H
#define FXTREC_ORIGINS_H

#include "account.h"

/* The event that ends a sleep. */
enum origin_kind {
	UNTOLD,
	HRTIMER,
	TIMER,
	DEVICE,
	SOFTIRQ,
	VECTOR,
	SENT,
	PACKET,
	REQUEST,
};

/* The number of the interrupt, softirq or vector is stored above its kind. The upper half contains the interrupted one. */
#define ORIGIN(kind, number) ((kind) | (u64)(u32)(number) << 8)
#define IN_UPPER_HALF 32

/* The disk request that was completed last in an interrupt. */
struct completed {
	u64 started;
	u64 issued;
	/* Where the kernel describes the disk. */
	u64 disk;
	u32 issuer;
	u32 bytes;
	/* 0 for none. */
	u32 operation;
	u32 unused;
};

struct origins {
	u64 hard;
	u64 soft;
	/* The function of a timer, or the action of a device's interrupt. */
	u64 hard_what;
	u64 soft_what;
	/* The packet that is being received, and its device. */
	u64 packet;
	u64 device;
	/* The thread that sent it, if known, and when. */
	u64 sender;
	u64 sent;
	/* Whether the previous packet was in a list that continues. */
	u64 goes_on;
	/* Otherwise the beginning of its headers: their number of bytes and protocol. */
	u32 header_bytes;
	u32 protocol;
	u32 header[12];
	struct completed by_hard;
	struct completed by_soft;
	u64 unused[6];
};

MEMORY(origins, struct origins);

/* The bits of the interrupt count for a running soft interrupt, and how many bytes of a device's name are reported. */
#define SOFT_BITS 0x1ff
#define TEXT_BYTES 20
#define MOST_PIECES 3

/* The part of a packet that contains addresses and ports, without options. */
#define HEADER_BYTES 44
#define LEAST_HEADER_BYTES 28

static inline struct origins *origins_of(u64 cpu)
{
	struct origins *all = memory(&origins);
	struct origins *own = &all[cpu & chosen(last_account)];

	as_made(own);
	return own;
}

#endif
