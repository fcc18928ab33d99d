// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * The program that runs at probed places in user space, and writes a sample of each hit into perf's ring. See probes.rs.
 */
#include "fxtrec.h"

LICENSE;

/* As many values as an event of a trace has arguments. */
#define VALUES 15

/* A number, or a register by its offset in `struct pt_regs`. */
struct value {
	u32 is_register;
	s32 what;
};

/* The data that is read at a place. */
struct way {
	u32 count;
	/* Whether the sample needs the user stack: if so, it is written to another event. */
	u32 user_stack;
	struct value values[VALUES];
};

/* Begins like the samples of tracepoints. */
struct hit {
	/* The part of a tracepoint's record before the thread: its id and flags. */
	u32 common;
	u32 tid;
	/* The number of the probe in 16 bits, and of the way. */
	u64 cookie;
	u64 values[VALUES];
};

MEMORY(ways, struct way);
CHOICE(number_of_ways, 1);
MAP(hits, BPF_MAP_TYPE_PERF_EVENT_ARRAY, struct hit);
MAP(hits_with_stacks, BPF_MAP_TYPE_PERF_EVENT_ARRAY, struct hit);

SEC("uprobe") int fxtrec_probe(void *registers)
{
	/* Only the part that is output is written. */
	struct hit hit;
	struct way *way = memory(&ways);
	u32 count = 0;

	hit.common = 0;
	hit.tid = bpf_get_current_pid_tgid();
	hit.cookie = bpf_get_attach_cookie(registers);
	u64 number = hit.cookie >> 16;
	if (number >= chosen(number_of_ways))
		return 0;
	way += number;
	for (; count < VALUES && count < way->count; count++) {
		struct value *value = &way->values[count];

		if (value->is_register)
			bpf_probe_read_kernel(&hit.values[count], sizeof(hit.values[count]), registers + (u16)value->what);
		else
			hit.values[count] = value->what;
	}
	u64 bytes = __builtin_offsetof(struct hit, values) + count * sizeof(hit.values[0]);
	if (way->user_stack)
		bpf_perf_event_output(registers, &hits_with_stacks, BPF_F_CURRENT_CPU, &hit, bytes);
	else
		bpf_perf_event_output(registers, &hits, BPF_F_CURRENT_CPU, &hit, bytes);
	return 0;
}
