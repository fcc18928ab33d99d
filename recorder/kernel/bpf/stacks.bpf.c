// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * Where threads block: the program on switches, where no other notes who waits. Those that finish samples are still assembled.
 */
#include "notes.h"

LICENSE;

/* sched_switch(preempted, prev, next, prev_state) */
SEC("tp_btf") int fxtrec_stacks(u64 *args)
{
	struct task_struct *prev = (void *)args[1], *next = (void *)args[2];

	/* Both have the same time: looking at the clock is half of what a switch costs that is not told of. */
	note_waits(args, prev, next, bpf_ktime_get_ns());
	return 0;
}
