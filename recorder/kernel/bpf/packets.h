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
 * Who sent a packet, or who last sent something by a socket, and when. One place may be of several packets, the last one has it.
 * The address without what all have alike, 42 bits of it, and the id of the thread, which has 22, are stored at once.
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

/* Who reads on another CPU meanwhile finds nobody there. */
static inline void put(struct sent *place, u64 address, u32 sender, u64 at)
{
	*(volatile u64 *)&place->whose = 0;
	barrier();
	place->at = at;
	barrier();
	*(volatile u64 *)&place->whose = whose(address, sender);
}

#endif
