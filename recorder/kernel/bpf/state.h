/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
#ifndef FXTREC_STATE_H
#define FXTREC_STATE_H

#include "fxtrec.h"

/*
 * `sched_switch`: the state of the outgoing thread. A waker may already have changed the task's state; whether the task is in a run queue
 * does not change before it has left the CPU.
 */
static inline u64 state_of(u64 *args, struct task_struct *prev)
{
	u64 state;

	if (is_defined(btf_trace_sched_switch))
		return args[3];
	if (exists(prev->__state))
		state = prev->__state;
	else
		state = ((struct task_struct___5_13 *)prev)->state;
	/* The bits for why a task does not run. A waker sets another bit first. */
	if (state & 0xff)
		return state;
	return prev->on_rq ? 0 : TASK_INTERRUPTIBLE;
}

#endif
