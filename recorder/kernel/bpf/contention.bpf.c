// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * Which lock of the kernel a thread waits for: noted where the program on switches looks. See contentions.rs.
 */
#include "contention.h"

LICENSE;

static inline struct contention *own_place(u32 *tid)
{
	*tid = bpf_get_current_pid_tgid();
	return contention_of(*tid);
}

/* contention_begin(lock, flags): it is taken. One for which a thread only spins is none of a thread that goes out. */
SEC("tp_btf") int fxtrec_lock(u64 *args)
{
	u64 lock = args[0];
	u32 flags = args[1], tid;

	if (flags & LCB_F_SPIN)
		return 0;
	struct contention *place = own_place(&tid);
	place->address = lock;
	place->flags = flags;
	place->tid = tid;
	return 0;
}

/* contention_end(lock, ret): it has the lock, or does not wait for it any more. */
SEC("tp_btf") int fxtrec_lock_had(u64 *args)
{
	u64 lock = args[0];
	u32 tid;
	struct contention *place = own_place(&tid);

	/* A lock for which it only spun meanwhile is another one. */
	if (place->tid == tid && place->address == lock)
		place->tid = 0;
	return 0;
}
