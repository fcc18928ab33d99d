/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
#ifndef FXTREC_PACKETS_H
#define FXTREC_PACKETS_H

#include "fxtrec.h"
#include "hash.h"
#include "whose.h"

#define SENT_BITS 10
#define TCP_CLOSE 7

/* Whether the registers with which a thread entered the kernel can be read. */
CHOICE(knows_calls, 0);

/*
 * The sender of a packet, or the thread that last sent something through a socket, and when. Several packets may share a slot; the last one
 * owns it. The address (42 bits, without the bits that all addresses share) and the thread id (22 bits) are stored at once.
 */
struct sent {
	u64 whose;
	u64 at;
};

MEMORY(packets, struct sent);
MEMORY(sockets, struct sent);

static inline struct sent *sent_of(void *map, u64 address)
{
	struct sent *places = memory(map);
	u32 place = (u32)(address >> ALIGNED_BITS) * MIX >> (32 - SENT_BITS);

	return &places[place];
}

/* A reader on another CPU then finds no sender. */
static inline void put(struct sent *place, u64 address, u32 sender, u64 at)
{
	*(volatile u64 *)&place->whose = 0;
	barrier();
	place->at = at;
	barrier();
	*(volatile u64 *)&place->whose = whose(address, sender);
}

#endif
