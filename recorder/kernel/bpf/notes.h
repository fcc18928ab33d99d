/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Which threads wait, and whether for a long time: the note of an outgoing thread that blocks, and the beginning of a sample when it is
 * switched in. The program that records switches calls this if it runs; otherwise stacks.bpf.c has a program for it. stacks/mod.rs
 * describes the design.
 */
#ifndef FXTREC_NOTES_H
#define FXTREC_NOTES_H

#include "owner.h"
#include "sample.h"
#include "set.h"
#include "state.h"

#define NOTES (64 * 1024)
/* The bits of a note that identify the thread; the others are the time since which it waits. */
#define OWNER_BITS 6
#define OWNER ((1 << OWNER_BITS) - 1)

/* How user stacks are recorded: see stacks/mod.rs. */
enum taking {
	BEHIND_SWITCHES,
	BY_INTERRUPT,
	WHEN_GOING_OUT,
};

CHOICE(taking, BEHIND_SWITCHES);
/* The minimum length of a long wait, in nanoseconds. */
CHOICE(over, 0);
/* Whether only waits of selected threads are recorded. */
CHOICE(are_chosen, 0);

/* A note for each thread; after the notes, the numbers of user stacks, if these are recorded when a thread is switched out. */
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

/* For a switch that is not noted: invalidates the note of this thread. */
static inline void forget_wait(struct task_struct *task)
{
	u32 tid = task->pid;
	u64 *note = note_of(tid), found = *note;

	/* Most threads have no note, and memory that is not written stays in the caches of all CPUs. */
	if (found && is_own(found, tid))
		*note = 0;
}

/* Interrupts this CPU as soon as possible; returns false if that fails. */
static inline bool interrupt_self(void *bytes)
{
	u32 cpu = bpf_get_smp_processor_id();
	void *bell = bpf_map_lookup_elem(&bells, &cpu);

	return bell && ring(bell, bytes);
}

/* Whether the stack of a thread may be recorded. */
static inline bool may_sample(struct task_struct *task)
{
	return !chosen(owned) || is_open_to_owner(task);
}

/* The sample of an incoming thread, as far as it can be filled now. */
static inline void begin_sample(struct task_struct *next, u64 since, u64 now)
{
	u32 tid = next->pid;
	struct scratch *own = own_scratch(&scratch);

	if (!own)
		return;
	struct sample *sample = &own->sample;
	/* The interrupt for the previous one has not occurred: a real-time kernel defers this work to a thread. */
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
	/* Users must not learn where the kernel is in memory. */
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

/* Notes a switch. This is on the path of every switch, so it has few instructions and no call. */
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
		/* The thread does not wait, nor did it before it was switched in: its note belongs to a wait whose end was not seen. */
		if (tid)
			forget_wait(prev);
		return;
	}
	note = note_of(tid);
	found = *note;
	/* The note belongs to this thread: its switch-in was not seen. */
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
