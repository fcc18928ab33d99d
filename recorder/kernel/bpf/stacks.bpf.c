// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * Where threads block, their wakers, and where they run: the program on switches, used if no other program notes waiting threads, and the
 * programs that record the running thread's stack. stacks/mod.rs describes the design.
 */
#include "descriptors.h"
#include "notes.h"
#include "python.h"

LICENSE;

/* A divisor of every page size: the memory of one such block is either present as a whole or not at all. */
#define BLOCK 4096
/* The maximum number of blocks to copy, the first of them partly: the kernel has 32 KiB for each CPU's part of a map's value. */
#define MOST_BLOCKS 7

/* How much of a program's stack is copied if frame pointers lead further: enough for functions of libraries without them between the kernel
 * and the program's own. Else a block. */
#define FEW_BYTES 512
/* A smaller stack is assumed not to be walked correctly by frame pointers. */
#define FEW_FRAMES (4 * 8)
/* How far from the top of the stack a frame may be for its address to be considered valid. */
#define FAR (1 << 20)

/* How many blocks are copied; 0 for the default, which suffices for most programs. */
CHOICE(blocks, 0);

/* Samples of wakers and of clocks are filled elsewhere: one program may interrupt the other. */
MAP(scratch_of_wakes, BPF_MAP_TYPE_PERCPU_ARRAY, struct scratch);
MAP(scratch_of_clocks, BPF_MAP_TYPE_PERCPU_ARRAY, struct scratch);

/* sched_switch(preempted, prev, next, prev_state) */
SEC("tp_btf") int fxtrec_stacks(u64 *args)
{
	struct task_struct *prev = (void *)args[1], *next = (void *)args[2];

	/* Both have the same time: reading the clock is half the cost of a switch without a record. */
	note_waits(args, prev, next, bpf_ktime_get_ns());
	return 0;
}

/* Copies this much of the program's stack to the end of the sample; false if it is not in memory. */
static inline bool copy_stack(struct sample *sample, u64 bytes, u64 length, u64 from)
{
	return bpf_probe_read_user(sample->frames + bytes, length, (void *)from) == 0;
}

/* Up to the end of the block that contains the address. */
static inline u64 rest_of_block(u64 address)
{
	return BLOCK - (address & (BLOCK - 1));
}

/* Copies as much as most programs need. Returns the new number of bytes of stacks. */
static inline u64 copy_little(struct sample *sample, u64 bytes, u64 frames)
{
	u64 top = sample->registers.stack, length = FEW_BYTES;

	/* Few frames, or a register that is not the address of a frame: frame pointers lead nowhere. Python interpreters are built without
	 * them. */
	if (frames < FEW_FRAMES || sample->python_frames || sample->registers.frame - top >= FAR)
		length = BLOCK;
	if (!copy_stack(sample, bytes, length, top)) {
		/* There may be nothing after the end of the page. */
		u64 rest = rest_of_block(top);

		if (rest >= length || !copy_stack(sample, bytes, rest, top))
			return bytes;
		length = rest;
	}
	sample->copied = length;
	return bytes + length;
}

/* Copies the blocks at the top of the program's stack one after the other, until one is not in memory. */
static inline u64 copy_blocks(struct sample *sample, u64 bytes)
{
	u64 from = sample->registers.stack, length = rest_of_block(from);

#pragma clang loop unroll(disable)
	for (u32 block = 0; block < chosen(blocks); block++) {
		if (!copy_stack(sample, bytes, length, from))
			break;
		from += length;
		bytes += length;
		sample->copied += length;
		length = BLOCK;
	}
	return bytes;
}

/* The user part of the running thread's sample: its frames, its registers, and the top of its stack. */
static inline u64 take_user_part(void *context, struct scratch *own, u64 bytes)
{
	struct sample *sample = &own->sample;

	sample->user = NO_PROGRAM;
	if (!sample->space)
		return bytes;
	sample->user = bpf_get_stack(context, sample->frames + bytes, USER_BYTES, BPF_F_USER_STACK);
	u64 frames = length_or_zero(sample->user, USER_BYTES);
	bytes += frames;
	copy_registers(&sample->registers, bpf_task_pt_regs(bpf_get_current_task_btf()));
	bytes = walk_python(own, bytes);
	return chosen(blocks) ? copy_blocks(sample, bytes) : copy_little(sample, bytes, frames);
}

/*
 * Whether the interrupt occurred while the sample's thread runs, and before it returned to its program: after that its registers differ.
 */
static inline bool is_in_wait(struct sample *sample)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct user_registers now;

	if ((u32)task->pid != sample->tid)
		return false;
	copy_registers(&now, bpf_task_pt_regs(task));
	return now.instruction == sample->registers.instruction && now.stack == sample->registers.stack;
}

/* sched_exit_tp(is_switch) or irq_work_entry(vector): the scheduler has finished, and the memory of the incoming thread is in use. */
SEC("tp_btf") int fxtrec_stacks_u(u64 *args)
{
	struct scratch *own = own_scratch(&scratch);

	if (!own || !own->pending)
		return 0;
	own->pending = 0;
	struct sample *sample = &own->sample;
	u64 bytes = length_or_zero(sample->kernel, KERNEL_BYTES);
	if (chosen(taking) == BY_INTERRUPT && !is_in_wait(sample)) {
		sample->user = -EFAULT;
	} else {
		describe(&sample->object, bpf_get_current_task_btf());
		bytes = take_user_part(args, own, bytes);
	}
	put_sample(sample, bytes);
	return 0;
}

/* Writes the stack of the running thread as a sample into the ring. */
static inline void put_own_stack(void *context, void *map, enum sample_kind kind, u32 woken, u64 since, u64 until)
{
	struct scratch *own = own_scratch(map);

	struct task_struct *task = bpf_get_current_task_btf();
	if (!own || !may_sample(task))
		return;
	struct sample *sample = &own->sample;
	sample->kind = kind;
	sample->woken = woken;
	sample->since = since;
	sample->until = until;
	sample->tid = task->pid;
	sample->pid = task->tgid;
	sample->space = (u64)task->mm;
	sample->copied = 0;
	sample->python = NO_PYTHON;
	sample->python_frames = 0;
	sample->object.kind = 0;
	sample->kernel = chosen(owned) ? 0 : bpf_get_stack(context, sample->frames, KERNEL_BYTES, 0);
	put_sample(sample, take_user_part(context, own, length_or_zero(sample->kernel, KERNEL_BYTES)));
}

/* sched_waking(task): a wait ends, perhaps a long one. The sample is of the waker. */
SEC("tp_btf") int fxtrec_stacks_w(u64 *args)
{
	struct task_struct *task = (void *)args[0];
	u32 tid = task->pid;

	if (tid == 0 || !may_sample(task))
		return 0;
	u64 note = *note_of(tid);
	if (!note || !is_own(note, tid))
		return 0;
	u64 since = note >> OWNER_BITS, now = bpf_ktime_get_ns();
	if (now - since >= chosen(over))
		put_own_stack(args, &scratch_of_wakes, WAKE, tid, since, now);
	return 0;
}

/* A sample of a perf event that counts time: the running thread, and where it is. */
SEC("perf_event") int fxtrec_stacks_c(void *context)
{
	/* The idle task does not count. */
	if ((u32)bpf_get_current_pid_tgid() == 0)
		return 0;
	u64 now = bpf_ktime_get_ns();
	put_own_stack(context, &scratch_of_clocks, ON_CPU, 0, now, now);
	return 0;
}
