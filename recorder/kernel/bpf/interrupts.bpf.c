// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * The activity of each CPU apart from running threads: time in interrupts, their causes, and when a switch was requested. These programs
 * only collect the data; the programs on switches and wake-ups report it. See account.rs and origins.rs.
 */
#include "account.h"
#include "origins.h"

LICENSE;

/* The machine's vector, for vectors with separate tracepoints. */
CHOICE(vector, 0);

static inline struct account *own_account(void)
{
	return account_of(bpf_get_smp_processor_id());
}

/* An interrupt begins. The depth is incremented before the time is read: a hard interrupt may occur in the middle of the program on a soft
 * one. */
static inline int begin(struct account *account)
{
	u64 depth = account->depth;

	*(volatile u64 *)&account->depth = depth + 1;
	if (depth == 0)
		account->since = bpf_ktime_get_ns();
	return 0;
}

static inline int begin_hard(u64 origin, u64 what)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct account *account = account_of(cpu);
	struct origins *own = origins_of(cpu);

	own->hard = origin;
	own->hard_what = what;
	own->by_hard.operation = 0;
	account->hard++;
	return begin(account);
}

/* irq_handler_entry(irq, action) */
SEC("tp_btf") int fxtrec_dev_in(u64 *args)
{
	return begin_hard(ORIGIN(DEVICE, args[0]), args[1]);
}

/* An interrupt that is not from a device. */
SEC("tp_btf") int fxtrec_irq_in(u64 *args)
{
	return begin_hard(ORIGIN(VECTOR, chosen(vector)), 0);
}

/* softirq_entry(vector) */
SEC("tp_btf") int fxtrec_soft_in(u64 *args)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct account *account = account_of(cpu);

	struct origins *own = origins_of(cpu);
	own->soft = ORIGIN(SOFTIRQ, args[0]);
	own->packet = 0;
	own->goes_on = 0;
	own->by_soft.operation = 0;
	account->soft++;
	return begin(account);
}

/* An interrupt ends. An interrupt that began before its program was attached has no depth. */
static inline int end(struct account *account)
{
	u64 depth = account->depth;

	if (depth == 0)
		return 0;
	if (depth == 1)
		account->total += bpf_ktime_get_ns() - account->since;
	account->depth = depth - 1;
	return 0;
}

SEC("tp_btf") int fxtrec_irq_out(u64 *args)
{
	u32 cpu = bpf_get_smp_processor_id();

	origins_of(cpu)->hard = 0;
	return end(account_of(cpu));
}

SEC("tp_btf") int fxtrec_soft_out(u64 *args)
{
	u32 cpu = bpf_get_smp_processor_id();

	struct origins *own = origins_of(cpu);
	own->soft = 0;
	own->packet = 0;
	own->goes_on = 0;
	return end(account_of(cpu));
}

/* hrtimer_expire_entry(timer, now), in the clock interrupt, or in the soft interrupt for timers that can wait. */
SEC("tp_btf") int fxtrec_hrtimer(u64 *args)
{
	struct hrtimer *timer = (void *)args[0];
	struct origins *own = origins_of(bpf_get_smp_processor_id());
	u64 function = (u64)timer->function;

	if (timer->is_soft) {
		own->soft = ORIGIN(HRTIMER, 0) | own->soft << IN_UPPER_HALF;
		own->soft_what = function;
	} else {
		own->hard = ORIGIN(HRTIMER, 0) | own->hard << IN_UPPER_HALF;
		own->hard_what = function;
	}
	return 0;
}

/* hrtimer_expire_exit(timer): the timer may be freed already. A hard interrupt in the middle of a soft one ends before it. */
SEC("tp_btf") int fxtrec_hr_end(u64 *args)
{
	struct origins *own = origins_of(bpf_get_smp_processor_id());

	if ((u8)own->hard == HRTIMER) {
		own->hard >>= IN_UPPER_HALF;
		own->by_hard.operation = 0;
	} else if ((u8)own->soft == HRTIMER) {
		own->soft >>= IN_UPPER_HALF;
		own->by_soft.operation = 0;
	}
	return 0;
}

/* timer_expire_entry(timer, baseclk), in the soft interrupt for timers. */
SEC("tp_btf") int fxtrec_timer(u64 *args)
{
	struct timer_list *timer = (void *)args[0];
	struct origins *own = origins_of(bpf_get_smp_processor_id());

	own->soft = ORIGIN(TIMER, 0) | own->soft << IN_UPPER_HALF;
	own->soft_what = (u64)timer->function;
	return 0;
}

/* timer_expire_exit(timer) */
SEC("tp_btf") int fxtrec_tmr_end(u64 *args)
{
	struct origins *own = origins_of(bpf_get_smp_processor_id());

	if ((u8)own->soft == TIMER) {
		own->soft >>= IN_UPPER_HALF;
		own->by_soft.operation = 0;
	}
	return 0;
}

/*
 * sched_set_need_resched_tp(task, cpu, flag): a switch is requested, perhaps on another CPU. A second, more urgent request changes nothing.
 * A switch away from the idle task delays no thread.
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

/* sched_exit_tp(is_switch): the scheduler has decided. If the thread continues, the request is done. */
SEC("tp_btf") int fxtrec_decided(u64 *args)
{
	if (args[0] == 0)
		own_account()->asked = 0;
	return 0;
}
