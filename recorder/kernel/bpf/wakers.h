/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Which thread runs, and whether an interrupt does: the kernel counts nested interrupts, at a place that differs between machines, and
 * that not every kernel lets a program get at directly. interrupts.rs lists the ways; the loader takes the first that the kernel accepts.
 */
#ifndef FXTREC_WAKERS_H
#define FXTREC_WAKERS_H

#include "fxtrec.h"

enum interrupts_by {
	/* No task is named as a waker, rather than the wrong one. */
	NOTHING,
	/* A variable of each CPU (x86). */
	VARIABLE,
	/* The same, beside the run queue, to which the task that runs leads: as if a task were there; by a copy; by copies all the way. */
	CAST,
	LAST_COPIED,
	ALL_COPIED,
	/* The task that runs. */
	TASK,
};

CHOICE(interrupts_by, NOTHING);
/* From the beginning of the variable, or from the CPU's run queue, to the count. */
CHOICE(count_at, 0);
/* The part of the count that says that an interrupt runs. */
CHOICE(interrupt_bits, 0);

/* Who runs. Linux 5.10 has no call for the task. */
static inline u32 current_tid(void)
{
	if (chosen(interrupts_by) == CAST || chosen(interrupts_by) == LAST_COPIED || chosen(interrupts_by) == TASK)
		return bpf_get_current_task_btf()->pid;
	return bpf_get_current_pid_tgid();
}

/* Who runs, and the part of the count of interrupts that says whether one does. */
static inline u32 current_or_interrupt(u32 *in_interrupt)
{
	u32 tid = current_tid(), count = 0;

	if (chosen(interrupts_by) == VARIABLE) {
		count = *(u32 *)(bpf_this_cpu_ptr(interrupt_variable()) + chosen(count_at));
	} else if (chosen(interrupts_by) == CAST) {
		struct rq *run_queue = bpf_get_current_task_btf()->se.cfs_rq->rq;

		/* Where a task would begin whose id is the count. */
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

/* The flags of the thread that runs, where the kernel has no call for the task itself. */
static inline u32 current_flags(void)
{
	u32 flags = 0;

	bpf_probe_read_kernel(&flags, sizeof(flags), (void *)(bpf_get_current_task() + offset_of(struct task_struct, flags)));
	return flags;
}

#define WAKERS (64 * 1024)

/*
 * Who is waking whom: where the program on the beginning of a wake-up leaves it for the one on its completion.
 *
 * A wake-up begins where the waker runs, and may be completed by an interrupt on another CPU. In between, no
 * other wakeup of the same thread can begin, and the kernel's own hand-over puts the two in order. A
 * thread's place is found by the lower bits of its id; should two threads that are being woken at once share
 * it, the earlier one's waker is not known. A place says whom it is about, so it is never the other's.
 *
 *   bits 0 to 30    the id of the woken
 *   bit 31          whether an interrupt does it
 *   bits 32 to 63   the id of who runs
 */
MEMORY(wakers, u64);

#define TOLD_ORIGINS 1024

/*
 * What the interrupt is about that wakes somebody, from the beginning of the wake-up to its completion. The place is found by the lower
 * bits of the id of the woken, and says who that is, as those of wakers do.
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
