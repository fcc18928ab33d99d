// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * What each CPU does besides running threads: time in interrupts, and since when a switch is asked for. These programs add up, and
 * the one on switches tells. See account.rs.
 */
#include "account.h"

LICENSE;

static inline struct account *own_account(void)
{
	return account_of(bpf_get_smp_processor_id());
}

/* An interrupt begins. The depth grows before the time is taken: a hard one may come in the middle of the program on a soft one. */
static inline int begin(struct account *account)
{
	u64 depth = account->depth;

	*(volatile u64 *)&account->depth = depth + 1;
	if (depth == 0)
		account->since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf") int fxtrec_irq_in(u64 *args)
{
	struct account *account = own_account();

	account->hard++;
	return begin(account);
}

SEC("tp_btf") int fxtrec_soft_in(u64 *args)
{
	struct account *account = own_account();

	account->soft++;
	return begin(account);
}

/* An interrupt ends, of either kind. One that began before its program was there has no depth. */
SEC("tp_btf") int fxtrec_irq_out(u64 *args)
{
	struct account *account = own_account();
	u64 depth = account->depth;

	if (depth == 0)
		return 0;
	if (depth == 1)
		account->total += bpf_ktime_get_ns() - account->since;
	account->depth = depth - 1;
	return 0;
}

/*
 * sched_set_need_resched_tp(task, cpu, flag): somebody asks for a switch, maybe on another CPU. A second, more urgent request changes
 * nothing. That the idle task makes room is nobody's loss.
 */
SEC("tp_btf") int fxtrec_asked(u64 *args)
{
	struct task_struct *task = (void *)args[0];
	struct account *account = account_of(args[1]);
	u32 tid = task->pid;

	if (tid == 0 || (account->asked && account->asked_tid == tid))
		return 0;
	u64 now = bpf_ktime_get_ns();
	account->asked_tid = tid;
	account->asked = now;
	return 0;
}

/* sched_exit_tp(is_switch): the scheduler has decided. If the thread goes on, nothing is asked of it any more. */
SEC("tp_btf") int fxtrec_decided(u64 *args)
{
	if (args[0] == 0)
		own_account()->asked = 0;
	return 0;
}
