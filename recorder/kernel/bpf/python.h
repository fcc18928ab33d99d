/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * The Python functions that a thread is in: CPython keeps its frames in its own lists. User space provides the offsets (`pythons.rs`) for
 * the processes that it has seen with an interpreter. Other processes cost a map lookup.
 *
 * The lists are the program's memory, and may contain anything: each loop is bounded, and a failed read ends the walk.
 */
#ifndef FXTREC_PYTHON_H
#define FXTREC_PYTHON_H

#include "sample.h"

/* Whether Python functions are walked. */
CHOICE(walks_python, 0);

/* How many threads of a process are searched for the running one. */
#define MOST_THREADS 64

/* Where glibc on x86-64 stores the values of the first keys of a thread, two words each; the result is checked. */
#define FIRST_VALUES 0x310
#define VALUE_BYTES 16
#define FEW_KEYS 32

/* The layout of one version of CPython, as the process has mapped it. */
struct python {
	u64 interpreter; /* the address of the main interpreter's address */
	u64 key; /* the address of the key by which threads find their state; 0 if it is not known */
	u64 threads;
	u64 next_thread;
	u64 thread_id;
	u64 thread_frame;
	u64 inner_frame; /* in what the former leads to, plus one; 0: that is the frame itself */
	u64 frame_bytes; /* so much of a frame is read, at most FRAME_BYTES */
	u64 previous;
	u64 code;
	u64 instruction;
	u64 entry; /* a byte that is at least `least_entry` where a C function's frame begins */
	u64 least_entry;
};

/* By process. */
MAP(pythons, BPF_MAP_TYPE_HASH, struct python);

struct tss_key {
	u32 is_made;
	u32 number;
};

static inline u64 word_at(u64 address)
{
	u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

/* The value of pthread_self() in the running thread; 0 if unknown. */
static inline u64 own_pthread(void)
{
#if defined(__TARGET_ARCH_x86)
	return ((struct task_struct___x86 *)bpf_get_current_task_btf())->thread.fsbase;
#else
	return 0;
#endif
}

/* The interpreter's state of the running thread; 0 if none is found. */
static inline u64 state_of_thread(struct python *python)
{
	u64 self = own_pthread(), state;
	struct tss_key key = { 0, 0 };

	if (!self)
		return 0;
	if (python->key && !bpf_probe_read_user(&key, sizeof(key), (void *)python->key) && key.is_made && key.number < FEW_KEYS) {
		state = word_at(self + FIRST_VALUES + key.number * VALUE_BYTES + 8);
		if (state && word_at(state + python->thread_id) == self)
			return state;
	}
	state = word_at(python->interpreter);
	if (state)
		state = word_at(state + python->threads);
#pragma clang loop unroll(disable)
	for (u32 at = 0; at < MOST_THREADS; at++) {
		if (!state || word_at(state + python->thread_id) == self)
			return state;
		state = word_at(state + python->next_thread);
	}
	return 0;
}

/* A word of the copied frame. */
static inline u64 part_of(u8 *frame, u64 at)
{
	return *(u64 *)(frame + (at & (FRAME_BYTES - 1)));
}

/* Appends the Python functions of the running thread after this many bytes of stacks. Returns the new number of bytes. */
static inline u64 walk_python(struct scratch *own, u64 bytes)
{
	struct sample *sample = &own->sample;
	u32 pid = sample->pid;

	sample->python_frames = 0;
	sample->python = NO_PYTHON;
	if (!chosen(walks_python))
		return bytes;
	struct python *python = bpf_map_lookup_elem(&pythons, &pid);
	if (!python)
		return bytes;
	u64 frame = state_of_thread(python), code;
	sample->python = NO_STATE;
	if (!frame)
		return bytes;
	sample->python = WHOLE;
	frame = word_at(frame + python->thread_frame);
	if (frame && python->inner_frame)
		frame = word_at(frame + python->inner_frame - 1);
#pragma clang loop unroll(disable)
	for (u32 at = 0; at < PYTHON_FRAMES; at++) {
		if (!frame)
			break;
		if (bpf_probe_read_user(own->frame, python->frame_bytes & (FRAME_BYTES - 1), (void *)frame)) {
			sample->python = UNREADABLE;
			break;
		}
		struct python_frame *to = (void *)(sample->frames + bytes) + at * sizeof(*to);
		code = part_of(own->frame, python->code) & ~(u64)7;
		/* Branch-free, since the verifier would follow both branches in each iteration. */
		code |= ((u64)own->frame[python->entry & (FRAME_BYTES - 1)] - python->least_entry) >> 63 ^ IS_ENTRY;
		to->code = code;
		to->instruction = part_of(own->frame, python->instruction);
		sample->python_frames = at + 1;
		frame = part_of(own->frame, python->previous);
	}
	if (frame && sample->python == WHOLE)
		sample->python = DEEPER;
	/* As a number that the verifier does not know: otherwise it would check the following code for each length. */
	u64 length = *(volatile u32 *)&sample->python_frames;
	return bytes + length_or_zero(length * sizeof(struct python_frame), PYTHON_FRAMES * sizeof(struct python_frame));
}

#endif
