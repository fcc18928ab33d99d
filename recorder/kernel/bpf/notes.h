/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Which threads wait, and whether it was long: the note of an outgoing thread that blocks, and the beginning of a sample when it is switched
 * in. The program that records switches notes it where it runs, else stacks.bpf.c has one for that. stacks/mod.rs describes the whole.
 */
#ifndef FXTREC_NOTES_H
#define FXTREC_NOTES_H

#include "owner.h"
#include "sample.h"
#include "set.h"
#include "state.h"

#define NOTES (64 * 1024)
/* The bits of a note that say whose it is; the others say since when it waits. */
#define OWNER_BITS 6
#define OWNER ((1 << OWNER_BITS) - 1)

/* How user stacks are taken: see stacks/mod.rs. */
enum taking {
	BEHIND_SWITCHES,
	BY_INTERRUPT,
	WHEN_GOING_OUT,
};

CHOICE(taking, BEHIND_SWITCHES);
/* Which waits are long, in nanoseconds. */
CHOICE(over, 0);
/* Whether only waits of chosen threads are wanted. */
CHOICE(are_chosen, 0);

/* A note of each thread; behind them the numbers of user stacks, if these are taken when a thread goes out. */
MEMORY(notes, u64);
MEMORY(chosen_threads, u64);
MAP(scratch, BPF_MAP_TYPE_PERCPU_ARRAY, struct scratch);
MAP(bells, BPF_MAP_TYPE_ARRAY_OF_MAPS, u32);
MAP(user_stacks, BPF_MAP_TYPE_STACK_TRACE, u64);

static inline u64 *note_of(u32 tid)
{
	u64 *all = memory(&notes);
	u64 *note = &all[tid & (NOTES - 1)];

	as_made(note);
	return note;
}

static inline u64 owner_of(u32 tid)
{
	return tid / NOTES;
}

static inline bool is_own(u64 note, u32 tid)
{
	return ((note ^ owner_of(tid)) & OWNER) == 0;
}

/* Of a switch that nothing is noted of: whatever the note of this thread says is not so any more. */
static inline void forget_wait(struct task_struct *task)
{
	u32 tid = task->pid;
	u64 *note = note_of(tid), found = *note;

	/* Most have none, and what is not written to stays in the caches of all CPUs. */
	if (found && is_own(found, tid))
		*note = 0;
}

/* Has this CPU interrupted as soon as it can be; false if it will not be. */
static inline bool interrupt_self(void *bytes)
{
	u32 cpu = bpf_get_smp_processor_id();
	void *bell = bpf_map_lookup_elem(&bells, &cpu);

	return bell && ring(bell, bytes);
}

/* Whether the stack of a thread may be taken. */
static inline bool may_sample(struct task_struct *task)
{
	return !chosen(owned) || is_open_to_owner(task);
}

/* The sample of a thread that comes in, as far as it can be made by now. */
static inline void begin_sample(struct task_struct *next, u64 since, u64 now)
{
	u32 tid = next->pid;
	struct scratch *own = own_scratch(&scratch);

	if (!own)
		return;
	struct sample *sample = &own->sample;
	/* The interrupt for the one before has not come: a real-time kernel has such work done by a thread. */
	if (chosen(taking) == BY_INTERRUPT && own->pending) {
		sample->user = -EFAULT;
		put_sample(sample, length_or_zero(sample->kernel, KERNEL_BYTES));
	}
	sample->since = since;
	sample->until = now;
	sample->tid = tid;
	sample->pid = next->tgid;
	sample->kind = OFF_CPU;
	sample->woken = 0;
	sample->space = (u64)next->mm;
	sample->copied = 0;
	sample->python = NO_PYTHON;
	sample->python_frames = 0;
	sample->object.kind = 0;
	if (chosen(taking) == WHEN_GOING_OUT)
		sample->user = note_of(tid)[NOTES];
	/* Where the kernel is in memory is not for users. */
	sample->kernel = chosen(owned) ? 0 : bpf_get_task_stack(next, sample->frames, KERNEL_BYTES, 0);
	if (chosen(taking) == BEHIND_SWITCHES) {
		own->pending = 1;
	} else if (chosen(taking) == WHEN_GOING_OUT || !sample->space) {
		if (chosen(taking) == BY_INTERRUPT)
			sample->user = NO_PROGRAM;
		put_sample(sample, length_or_zero(sample->kernel, KERNEL_BYTES));
	} else {
		copy_registers(&sample->registers, bpf_task_pt_regs(next));
		own->pending = 1;
		if (!interrupt_self(&sample->since)) {
			own->pending = 0;
			count_no_room();
		}
	}
}

/* What is noted of a switch. On the way of every switch there are few instructions, and no call. */
static inline void note_waits(u64 *args, struct task_struct *prev, struct task_struct *next, u64 now)
{
	u32 tid = next->pid;
	u64 *note = note_of(tid), found = *note;

	if (found && is_own(found, tid)) {
		u64 since = found >> OWNER_BITS;

		*note = 0;
		if (unlikely(now - since >= chosen(over)) && (!chosen(are_chosen) || is_member(&chosen_threads, tid)) &&
		    may_sample(next))
			begin_sample(next, since, now);
	}

	tid = prev->pid;
	u64 state = state_of(args, prev);
	if (args[0] || state == 0 || (state & TASK_DEAD)) {
		/* It does not wait, nor did it when it came in: an own note is of a wait whose end no program saw. */
		if (tid)
			forget_wait(prev);
		return;
	}
	note = note_of(tid);
	found = *note;
	/* An own one: no program saw the thread come in. */
	if (unlikely(found) && !is_own(found, tid)) {
		struct counts_of_stacks *counts = memory(&missing);

		__sync_fetch_and_add(&counts->given_up, 1);
	}
	*note = now << OWNER_BITS | owner_of(tid);
	if (chosen(taking) == WHEN_GOING_OUT) {
		note[NOTES] = NO_PROGRAM;
		if (prev->mm)
			note[NOTES] = bpf_get_stackid(args, &user_stacks, BPF_F_USER_STACK);
	}
}

#endif
