/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Which thread runs, and whether an interrupt does: the kernel counts nested interrupts in a place that differs between machines, and not
 * every kernel lets programs access it directly. interrupts.rs lists the ways; the loader uses the first one that the kernel accepts.
 */
#ifndef FXTREC_WAKERS_H
#define FXTREC_WAKERS_H

#include "fxtrec.h"

enum interrupts_by {
	/* No task is named as a waker, rather than the wrong one. */
	NOTHING,
	/* A per-CPU variable (x86). */
	VARIABLE,
	/* The same variable next to the run queue, which is found from the current task: by a cast to a task; with a copy for the last step; with
	 * copies for all steps. */
	CAST,
	LAST_COPIED,
	ALL_COPIED,
	/* The current task. */
	TASK,
};

CHOICE(interrupts_by, NOTHING);
/* The offset of the count from the beginning of the variable, or from the CPU's run queue. */
CHOICE(count_at, 0);
/* The part of the count that shows that an interrupt runs. */
CHOICE(interrupt_bits, 0);

/* Who runs. Linux 5.10 has no call that returns the task. */
static inline u32 current_tid(void)
{
	if (chosen(interrupts_by) == CAST || chosen(interrupts_by) == LAST_COPIED || chosen(interrupts_by) == TASK)
		return bpf_get_current_task_btf()->pid;
	return bpf_get_current_pid_tgid();
}

/* The running thread, and the part of the interrupt count that shows whether an interrupt runs. */
static inline u32 current_or_interrupt(u32 *in_interrupt)
{
	u32 tid = current_tid(), count = 0;

	if (chosen(interrupts_by) == VARIABLE) {
		count = *(u32 *)(bpf_this_cpu_ptr(interrupt_variable()) + chosen(count_at));
	} else if (chosen(interrupts_by) == CAST) {
		struct rq *run_queue = bpf_get_current_task_btf()->se.cfs_rq->rq;

		/* The address of an imaginary task whose id field is the count. */
		count = as_task((void *)run_queue + (s64)chosen(count_at) - offset_of(struct task_struct, pid))->pid;
	} else if (chosen(interrupts_by) == LAST_COPIED) {
		void *run_queue = bpf_get_current_task_btf()->se.cfs_rq->rq;

		bpf_probe_read_kernel(&count, sizeof(count), (void *)((u64)run_queue + chosen(count_at)));
	} else if (chosen(interrupts_by) == ALL_COPIED) {
		u64 at = bpf_get_current_task();

		bpf_probe_read_kernel(&at, sizeof(at), (void *)(at + offset_of(struct task_struct, se.cfs_rq)));
		bpf_probe_read_kernel(&at, sizeof(at), (void *)(at + offset_of(struct cfs_rq, rq)));
		bpf_probe_read_kernel(&count, sizeof(count), (void *)(at + chosen(count_at)));
	} else if (chosen(interrupts_by) == TASK) {
		count = bpf_get_current_task_btf()->thread_info.preempt_count;
	}
	*in_interrupt = count & chosen(interrupt_bits);
	return tid;
}

/* The flags of the running thread, on kernels without a call that returns the task. */
static inline u32 current_flags(void)
{
	u32 flags = 0;

	bpf_probe_read_kernel(&flags, sizeof(flags), (void *)(bpf_get_current_task() + offset_of(struct task_struct, flags)));
	return flags;
}

#define WAKERS (64 * 1024)

/*
 * Wakers: the program on the beginning of a wake-up notes the waker for the program on its completion.
 *
 * A wake-up begins on the waker's CPU, and may be completed by an interrupt on another CPU. In between, no other wake-up of the same thread
 * can begin, and the kernel's own hand-over orders the two. A thread's slot is found by the lower bits of its id; if two threads that are
 * being woken at the same time share it, the waker of the earlier one is unknown. A slot contains the thread's id, so a note is never
 * attributed to another thread.
 *
 *   bits 0 to 30    the id of the woken
 *   bit 31          whether an interrupt does it
 *   bits 32 to 63   the id of who runs
 */
MEMORY(wakers, u64);

#define TOLD_ORIGINS 1024

/*
 * The cause of the interrupt that wakes a thread, from the beginning of the wake-up to its completion. The slot is found by the lower bits
 * of the woken thread's id, and contains the id, as for wakers.
 */
struct told_origin {
	u64 what;
	u64 since;
	u32 tid;
	u32 number;
	u8 kind;
	u8 pieces;
	u8 unused[2];
	u8 bytes[100];
};

MEMORY(told_origins, struct told_origin);

static inline struct told_origin *told_origin_of(u32 tid)
{
	struct told_origin *places = memory(&told_origins);
	struct told_origin *place = &places[tid & (TOLD_ORIGINS - 1)];

	as_made(place);
	return place;
}

static inline u64 *waker_of(u32 tid)
{
	u64 *places = memory(&wakers);
	u64 *place = &places[tid & (WAKERS - 1)];

	as_made(place);
	return place;
}

#endif
