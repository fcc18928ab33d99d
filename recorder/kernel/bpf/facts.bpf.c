// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * The features of the running kernel. None of these is ever loaded: the loader reads the number that CO-RE puts into each (types.rs) to
 * determine which programs are worth trying.
 */
#include "fxtrec.h"

LICENSE;

#define FACT(name, number) \
	SEC("tp_btf") int name(void) { return number; }
#define HAS(name, structure, field) FACT(name, exists(((structure *)0)->field))

HAS(leads_to_run_queue, struct cfs_rq, rq)
HAS(counts_steal, struct rq, prev_steal_time_rq)
HAS(counts_throttling, struct cfs_rq, throttled_clock_self_time)
HAS(marks_throttled, struct task_struct, throttled)
HAS(counts_interrupts, struct task_struct, thread_info.preempt_count)
FACT(count_at, offset_of(struct pcpu_hot, preempt_count))
