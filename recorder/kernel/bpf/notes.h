/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Who waits, and whether it was long: the note of a thread that goes out to block, and the beginning of a sample when it comes in. The
 * program that records switches notes it where it runs, else stacks.bpf.c has one for that. stacks/program.rs describes the whole.
 */
#ifndef FXTREC_NOTES_H
#define FXTREC_NOTES_H

#include "set.h"
#include "state.h"

#define EFAULT 14

#define NOTES (64 * 1024)
/* The bits of a note that say whose it is; the others say since when it waits. */
#define OWNER_BITS 6
#define OWNER ((1 << OWNER_BITS) - 1)

#define KERNEL_BYTES (64 * 8)

/* In the place of the length of a user stack, or of its number: the thread has no program. */
#define NO_PROGRAM (-2147483648ll)

struct sample {
	u64 since;
	u64 until;
	u32 tid;
	u32 pid;
	s64 user;
	s64 kernel;
	u64 space;
	u64 registers[4]; /* instruction, stack, frame, link */
	u64 copied;
	u32 kind;
	u32 woken;
	u8 frames[KERNEL_BYTES];
};

#define OFF_CPU 0

/* How user stacks are taken: see stacks/program.rs. */
enum taking {
	BEHIND_SWITCHES,
	BY_INTERRUPT,
	WHEN_GOING_OUT,
};

CHOICE(taking, BEHIND_SWITCHES);
/* Which waits are long, in nanoseconds. */
CHOICE(over, 0);
/* Where it is told that a sample lacks its user part, from its beginning. */
CHOICE(pending_at, 0);
/* Whether only waits of chosen threads are wanted. */
CHOICE(are_chosen, 0);

struct counts_of_stacks {
	u64 no_room;
	u64 given_up;
};

/* A note of each thread; behind them the numbers of user stacks, if these are taken when a thread goes out. */
MEMORY(notes, u64);
MEMORY(chosen_threads, u64);
MEMORY(missing, struct counts_of_stacks);
MAP(scratch, BPF_MAP_TYPE_PERCPU_ARRAY, struct sample);
MAP(samples, BPF_MAP_TYPE_RINGBUF, struct sample);
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

static inline void count_no_room(void)
{
	struct counts_of_stacks *counts = memory(&missing);

	__sync_fetch_and_add(&counts->no_room, 1);
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

static inline u64 *pending(struct sample *sample)
{
	return (void *)sample + chosen(pending_at);
}

/* Puts the sample into the ring, without copies. */
static inline void put_sample(struct sample *sample, s64 length)
{
	u64 bytes = length;

	sample->copied = 0;
	/* What is negative is an error. */
	if (bytes > KERNEL_BYTES)
		bytes = 0;
	as_made(bytes);
	if (bytes > KERNEL_BYTES)
		return;
	if (bpf_ringbuf_output(&samples, sample, __builtin_offsetof(struct sample, frames) + bytes, BPF_RB_NO_WAKEUP))
		count_no_room();
}

/* The program's registers, where the kernel keeps them, as far as a stack is walked from them. */
static inline void copy_registers(struct sample *sample, struct pt_regs *registers)
{
#if defined(__TARGET_ARCH_x86)
	sample->registers[0] = registers->ip;
	sample->registers[1] = registers->sp;
	sample->registers[2] = registers->bp;
	sample->registers[3] = 0;
#elif defined(__TARGET_ARCH_arm64)
	sample->registers[0] = registers->pc;
	sample->registers[1] = registers->sp;
	sample->registers[2] = registers->regs[29];
	sample->registers[3] = registers->regs[30];
#endif
}

/* Has this CPU interrupted as soon as it can be; false if it will not be. */
static inline bool interrupt_self(struct sample *sample)
{
	u32 cpu = bpf_get_smp_processor_id();
	void *bell = bpf_map_lookup_elem(&bells, &cpu);

	return bell && bpf_ringbuf_output(bell, &sample->since, sizeof(sample->since), BPF_RB_FORCE_WAKEUP) == 0;
}

/* The sample of a thread that comes in, as far as it can be made by now. */
static inline void begin_sample(struct task_struct *next, u64 since, u64 now)
{
	u32 zero = 0, tid = next->pid;
	struct sample *sample = bpf_map_lookup_elem(&scratch, &zero);

	if (!sample)
		return;
	/* The interrupt for the one before has not come: a real-time kernel has such work done by a thread. */
	if (chosen(taking) == BY_INTERRUPT && *pending(sample)) {
		sample->user = -EFAULT;
		put_sample(sample, sample->kernel);
	}
	sample->since = since;
	sample->until = now;
	sample->tid = tid;
	sample->pid = next->tgid;
	sample->kind = OFF_CPU;
	sample->woken = 0;
	sample->space = (u64)next->mm;
	if (chosen(taking) == WHEN_GOING_OUT)
		sample->user = note_of(tid)[NOTES];
	s64 length = bpf_get_task_stack(next, sample->frames, KERNEL_BYTES, 0);
	sample->kernel = length;
	if (chosen(taking) == BEHIND_SWITCHES) {
		*pending(sample) = 1;
	} else if (chosen(taking) == WHEN_GOING_OUT) {
		put_sample(sample, length);
	} else if (!sample->space) {
		sample->user = NO_PROGRAM;
		put_sample(sample, length);
	} else {
		copy_registers(sample, bpf_task_pt_regs(next));
		*pending(sample) = 1;
		if (!interrupt_self(sample)) {
			*pending(sample) = 0;
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
		if (unlikely(now - since >= chosen(over)) && (!chosen(are_chosen) || is_member(&chosen_threads, tid)))
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
