/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/* A sample of where a thread is, which is filled in per-CPU memory and then put into a ring. */
#ifndef FXTREC_SAMPLE_H
#define FXTREC_SAMPLE_H

#include "fxtrec.h"

#define EFAULT 14

/* The most of a kernel stack, and of a user stack: no more than the kernel's default for `perf_event_max_stack`. */
#define KERNEL_BYTES (64 * 8)
#define USER_BYTES (127 * 8)
/* The maximum number of frames of Python functions, including those that mark where a C function's frames begin. */
#define PYTHON_FRAMES 64
/* The maximum number of bytes of such a frame that are read, a power of two. */
#define FRAME_BYTES 128

/* In place of the length of a user stack, or of its number: the thread has no program. */
#define NO_PROGRAM (-2147483648ll)

/* Which stack it is. */
enum sample_kind {
	OFF_CPU,
	WAKE,
	ON_CPU,
};

/* How the walk of Python functions ended. */
enum python_end {
	NO_PYTHON, /* there was none */
	WHOLE,
	DEEPER, /* there was no room for more */
	UNREADABLE,
	NO_STATE, /* the interpreter does not know the thread */
};

/* A bit of the address of a code object: see `struct python`. */
#define IS_ENTRY 1

struct python_frame {
	u64 code;
	u64 instruction;
};

/* Registers of the program when it entered the kernel. */
struct user_registers {
	u64 instruction;
	u64 stack;
	u64 frame;
	u64 link;
};

/* Of a name, with the zero at its end. */
#define NAME_BYTES 64
#define DEVICE_BYTES 32

/* What a thread waited for: see descriptors.h. */
#define IS_KNOWN 1

struct described {
	u32 kind; /* the bits of a mode, and IS_KNOWN; 0: nothing is known */
	u32 descriptor;
	u16 family;
	u16 protocol;
	u16 local_port;
	u16 remote_port; /* as in packets */
	u32 peer; /* the process at the other end of a local socket */
	u8 local[16];
	u8 remote[16];
	char device[DEVICE_BYTES];
	char name[NAME_BYTES];
	char parent[NAME_BYTES];
};

struct sample {
	u64 since;
	u64 until;
	u32 tid;
	u32 pid;
	s64 user;
	s64 kernel;
	u64 space;
	struct user_registers registers;
	u64 copied;
	u32 kind;
	u32 woken;
	u32 python;
	u32 python_frames;
	struct described object;
	/* The kernel's, then the program's, then those of Python, then the top of its stack. */
	u8 frames[KERNEL_BYTES] __attribute__((aligned(8)));
};

struct scratch {
	u64 pending; /* the sample lacks its user part */
	u8 frame[FRAME_BYTES + 8]; /* a frame of Python */
	struct sample sample;
};

struct counts_of_stacks {
	u64 no_room;
	u64 given_up;
};

MEMORY(missing, struct counts_of_stacks);
MAP(samples, BPF_MAP_TYPE_RINGBUF, struct sample);

/* The memory in which this CPU builds samples of the kind in `map`. */
static inline struct scratch *own_scratch(void *map)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(map, &zero);
}

static inline void count_no_room(void)
{
	struct counts_of_stacks *counts = memory(&missing);

	__sync_fetch_and_add(&counts->no_room, 1);
}

/* How many bytes of a stack were walked; a negative value is an error. The verifier must see the bound of this very register. */
static inline u64 length_or_zero(u64 length, const u64 most)
{
	asm("if %0 <= %1 goto +1\n%0 = 0" : "+r"(length) : "i"(most));
	return length;
}

/* Puts the sample into the ring, with this many bytes of stacks. */
static inline void put_sample(struct sample *sample, u64 bytes)
{
	if (bpf_ringbuf_output(&samples, sample, __builtin_offsetof(struct sample, frames) + bytes, BPF_RB_NO_WAKEUP))
		count_no_room();
}

/* The registers that unwinding starts from, out of those that the kernel saves. */
static inline void copy_registers(struct user_registers *to, struct pt_regs *kept)
{
#if defined(__TARGET_ARCH_x86)
	to->instruction = kept->ip;
	to->stack = kept->sp;
	to->frame = kept->bp;
	to->link = 0;
#elif defined(__TARGET_ARCH_arm64)
	to->instruction = kept->pc;
	to->stack = kept->sp;
	to->frame = kept->regs[29];
	to->link = kept->regs[30];
#endif
}

#endif
