/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Who runs, and whether an interrupt does: the kernel counts nested interrupts, at a place that differs between machines, and that not
 * every kernel lets a program get at directly. interrupts.rs has the ways, of which the loader takes the first that the kernel accepts.
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

/* Who runs, and whether an interrupt does. */
static inline u32 current_or_interrupt(bool *in_interrupt)
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
	*in_interrupt = (count & chosen(interrupt_bits)) != 0;
	return tid;
}

#define WAKERS (64 * 1024)

/*
 * Who is waking whom: where the program on the beginning of a wake-up leaves it for the one on its completion.
 *
 * A wake-up begins where the waker runs, and may be completed by an interrupt on another CPU. In between nobody can begin another of
 * the same thread, and the kernel's own hand-over puts the two in order. A thread's place is found by the lower bits of its id; should
 * two threads that are being woken at once share it, the earlier one's waker is not known. A place says whom it is about, so it is
 * never the other's.
 *
 *   bits 0 to 30    the id of the woken
 *   bit 31          whether an interrupt does it
 *   bits 32 to 63   the id of who runs
 */
MEMORY(wakers, u64);

static inline u64 *waker_of(u32 tid)
{
	u64 *places = memory(&wakers);
	u64 *place = &places[tid & (WAKERS - 1)];

	as_made(place);
	return place;
}

#endif
