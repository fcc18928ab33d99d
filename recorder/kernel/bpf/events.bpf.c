// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * The programs on switches and wake-ups, which write a record of each into the lane of their CPU.
 *
 * Additional records precede that of a switch if there is anything to report: delays of the slice that ends, the quota that keeps the
 * thread from running, and the lock that it waits for.
 */
#include "account.h"
#include "contention.h"
#include "lane.h"
#include "notes.h"
#include "origins.h"
#include "scope.h"
#include "state.h"
#include "throttle.h"
#include "waits.h"
#include "wakers.h"

LICENSE;

/* The facts that are reported, if the kernel has them and they were requested. */
CHOICE(reports_steal, 0);
CHOICE(reports_irqs, 0);
CHOICE(reports_requests, 0);
CHOICE(reports_syscalls, 0);
CHOICE(reports_futexes, 0);
CHOICE(reports_locks, 0);
CHOICE(reports_origins, 0);
CHOICE(reports_disks, 0);
CHOICE(notes_waits, 0);
CHOICE(reports_wakings, 0);

/* Notes the system call and the futex that the thread blocks in, if any. */
static inline void note_call(u64 *args, struct task_struct *prev, struct lane *lane)
{
	lane->syscall = NO_SYSCALL;
	if (chosen(reports_futexes))
		lane->futex.address = 0;
#if defined(__TARGET_ARCH_x86) || defined(__TARGET_ARCH_arm64)
	if (state_of(args, prev) == 0 || args[0] || (prev->flags & (PF_KTHREAD | PF_USER_WORKER | PF_IO_WORKER)))
		return;
#if defined(__TARGET_ARCH_x86)
	if (prev->thread_info.status & TS_COMPAT)
		return;
	struct pt_regs *registers = bpf_task_pt_regs(prev);
	u64 number = registers->orig_ax;
#else
	if (prev->thread_info.flags >> TIF_32BIT & 1)
		return;
	struct pt_regs *registers = bpf_task_pt_regs(prev);
	u64 number = (u32)registers->syscallno;
#endif
	/* An entry by an exception has -1. */
	if (number >= NO_SYSCALL)
		return;
	lane->syscall = number;
	if (chosen(reports_futexes) && number == SYS_futex) {
		struct futex *futex = &lane->futex;
#if defined(__TARGET_ARCH_x86)
		u64 address = registers->di;

		futex->operation = registers->si;
		futex->value = registers->dx;
#else
		/* These registers keep their values until the call returns. */
		u64 address = registers->regs[0];

		futex->operation = registers->regs[1];
		futex->value = registers->regs[2];
#endif
		futex->address = address;
		/* The thread still has its memory, and pages are not loaded for this: missing memory is read as 0. */
		bpf_probe_read_user(futex->words, sizeof(futex->words), (void *)address);
	}
#endif
}

static inline void tell_futex(struct event *event, const struct futex *futex)
{
	struct futex_record *record = next_record(event);

	record->address = futex->address;
	record->word = futex->words[0];
	record->after_8 = futex->words[2];
	record->value = futex->value;
	record->kind = FUTEX;
	record->operation = futex->operation;
	record->after_16 = futex->words[4];
	event->head++;
}

/* Reports the kernel lock that the thread waits for, if any, whether it sleeps or is preempted. */
static inline void tell_lock(struct event *event, u32 tid)
{
	struct contention *place = contention_of(tid);
	u32 waiting = place->tid;

	if (waiting == 0 || waiting != tid)
		return;
	struct contention_record *record = next_record(event);
	record->address = place->address;
	record->flags = place->flags;
	record->kind = CONTENTION;
	event->head++;
}

/* Reports the time that the host took from the slice that ends, if any. The thread is switched in on this CPU. */
static inline void tell_slice(struct event *event, struct task_struct *next)
{
	u64 stolen = next->se.cfs_rq->rq->prev_steal_time_rq, before = event->lane->stolen;

	/* The counter never decreases, but reads as 0 if its address is unknown. */
	if (unlikely(stolen > before)) {
		struct slice_record *record = next_record(event);

		event->lane->stolen = stolen;
		record->stolen = stolen - before;
		record->kind = SLICE;
		event->head++;
	}
}

/* Reports the time that interrupts took from the slice that ends, and when its end was requested, if known. */
static inline void tell_taken(struct event *event, struct account *account, struct task_struct *prev)
{
	struct lane *lane = event->lane;
	u64 irqs = 0, asked = 0;
	u8 flags = 0;

	if (chosen(reports_irqs))
		irqs = account->hard + account->soft - lane->irqs;
	if (chosen(reports_requests))
		asked = account->asked;
	if (!unlikely(irqs | asked))
		return;
	struct taken_record *record = next_record(event);
	/* No switch happens within an interrupt. */
	account->depth = 0;
	u64 total = account->total;
	record->irq_ns = total - lane->irq_ns;
	lane->irq_ns = total;
	record->irqs = irqs;
	lane->irqs += irqs;
	if (asked) {
		account->asked = 0;
		/* Otherwise it is a request for another thread, whose switch was not seen. */
		if (account->asked_tid == (u32)prev->pid && asked < event->time) {
			record->asked_ns = event->time - asked;
			flags = FLAG_FIRST;
		}
	}
	record->kind = TAKEN;
	record->flags = flags;
	event->head++;
}

/* sched_switch(preempted, prev, next, prev_state) */
SEC("tp_btf") int fxtrec_switch(u64 *args)
{
	struct task_struct *prev = (void *)args[1], *next = (void *)args[2];
	struct event event;
	u32 cpu;

	struct lane *lane = find_lane(&cpu);
	if (!lane)
		goto unnoted;
	event.lane = lane;
	if (chosen(scope_is)) {
		/* The switch after one of the scope is reported too, which ends the slice of the thread that came in, and all while one waits. */
		u64 before = lane->shown, now = is_in_scope(prev) ? FLAG_PREV_IN_SCOPE : 0;

		now |= is_in_scope(next) ? FLAG_NEXT_IN_SCOPE : 0;
		/* The same stands for both. */
		if (chosen(owned) && is_hidden(prev) && shown_tid(prev, cpu) == shown_tid(next, cpu) && (before || !is_waited_for(lane)))
			goto unnoted;
		if (now & FLAG_PREV_IN_SCOPE && (args[0] || state_of(args, prev) == 0) && prev->pid)
			begin_wait(prev->pid, cpu, &event);
		/* One that is not in scope may have left it while it waited. */
		if (now & FLAG_NEXT_IN_SCOPE || is_waited_for(lane))
			end_wait(next->pid, &event);
		now |= is_waited_for(lane) ? FLAG_WAITED_FOR : 0;
		lane->shown = now;
		if (!(before | now))
			goto untold;
	}
	if (chosen(reports_syscalls))
		note_call(args, prev, lane);
	if (!begin(&event, next, FIRED_SWITCH))
		goto untold;
	if (chosen(reports_steal))
		tell_slice(&event, next);
	if (chosen(reports_irqs) || chosen(reports_requests))
		tell_taken(&event, account_of(cpu), prev);
	check_goes_out(&event, args, prev);
	check_wait(&event, next);
	if (chosen(reports_futexes) && lane->futex.address)
		tell_futex(&event, &lane->futex);
	u32 tid = prev->pid;
	if (chosen(reports_locks))
		tell_lock(&event, tid);

	struct switch_record *record = next_record(&event);
	record->time = event.time;
	record->prev = chosen(owned) ? shown_tid(prev, cpu) : tid;
	record->next = chosen(owned) ? shown_tid(next, cpu) : (u32)next->pid;
	record->state = state_of(args, prev) | prev->exit_state;
	record->syscall = chosen(reports_syscalls) ? lane->syscall : NO_SYSCALL;
	record->kind = SWITCH;
	record->flags = args[0] | (chosen(scope_is) ? lane->shown : 0);
	record->prio = prev->prio;
	record->next_prio = next->prio;
	if (chosen(owned) && is_hidden(prev)) {
		record->state = SLEEPS;
		record->syscall = NO_SYSCALL;
		record->flags = lane->shown;
		record->prio = USUAL_PRIO;
	}
	if (chosen(owned) && is_hidden(next))
		record->next_prio = USUAL_PRIO;
	if (chosen(notes_waits))
		note_waits(args, prev, next, event.time);
	publish(&event);
	return 0;

untold:
	/* A switch without a record still answers a request. */
	if (chosen(reports_requests))
		account_of(cpu)->asked = 0;
unnoted:
	/* The time must not be noted either: two waits would look like one. */
	if (chosen(notes_waits)) {
		forget_wait(prev);
		forget_wait(next);
	}
	return 0;
}

/* sched_migrate_task(task, cpu), which fires before the task is moved. */
SEC("tp_btf") int fxtrec_migrate(u64 *args)
{
	struct task_struct *task = (void *)args[0];
	u32 to = args[1];
	struct event event;

	if (chosen(scope_is) && !is_in_scope(task))
		return 0;
	if (!begin_here(&event, task, FIRED_MOVED))
		return 0;
	if (chosen(scope_is))
		follow_wait(&event, task, to);
	check_wait(&event, task);
	struct moved_record *record = next_record(&event);
	record->time = event.time;
	record->tid = task->pid;
	record->to_cpu = to;
	record->from_cpu = cpu_of(task);
	record->kind = MOVED;
	event.head++;
	tell_new_queue(&event, task, to);
	event.head--;
	publish(&event);
	return 0;
}

/* The record of a wake-up, except for the waker. */
static inline void tell_wake(struct event *event, struct task_struct *task, enum kind kind, u32 current, u32 waker, u8 flags)
{
	struct wake_record *record = next_record(event);
	u32 cpu = cpu_of(task);

	record->time = event->time;
	record->tid = task->pid;
	record->current = current;
	record->waker = waker | cpu >> 8 << 24;
	record->kind = kind;
	record->flags = flags;
	record->prio = task->prio;
	record->cpu = cpu;
	publish(event);
}

static inline void note_request(struct told_origin *place, struct completed *completed)
{
	u32 *rest = (void *)(place->bytes + TEXT_BYTES);

	place->kind = REQUEST;
	place->what = completed->started;
	place->since = completed->issued;
	place->number = completed->issuer;
	place->pieces = 2;
	bpf_probe_read_kernel_str(place->bytes, TEXT_BYTES, (void *)(completed->disk + offset_of(struct gendisk, disk_name)));
	rest[0] = completed->operation;
	rest[1] = completed->bytes;
}

/* Notes the cause of the interrupt that wakes this thread. */
static inline void note_origin(u32 tid, bool is_hard)
{
	struct told_origin *place = told_origin_of(tid);
	struct origins *own = origins_of(bpf_get_smp_processor_id());
	u64 origin = is_hard ? own->hard : own->soft;

	place->tid = tid;
	place->pieces = 0;
	if (chosen(reports_disks)) {
		struct completed *completed = is_hard ? &own->by_hard : &own->by_soft;

		if (completed->operation) {
			note_request(place, completed);
			return;
		}
	}
	if (!is_hard && own->packet) {
		u32 sender = own->sender;

		/* For packets that the thread sent itself, the kernel has already answered or dropped them. */
		place->kind = sender && sender != tid ? SENT : PACKET;
		place->number = sender;
		place->since = own->sent;
		if (place->kind == PACKET && own->header_bytes) {
			place->number = own->protocol;
			place->since = own->header_bytes;
			place->pieces = MOST_PIECES;
#pragma unroll
			for (u32 word = 0; word < HEADER_BYTES / 4; word++)
				((u32 *)place->bytes)[word] = own->header[word];
		}
		return;
	}
	place->kind = origin;
	place->number = (u32)origin >> 8;
	place->what = is_hard ? own->hard_what : own->soft_what;
	if ((u8)origin == DEVICE) {
		u64 name = 0;

		place->pieces = 1;
		bpf_probe_read_kernel(&name, sizeof(name), (void *)(place->what + offset_of(struct irqaction, name)));
		bpf_probe_read_kernel_str(place->bytes, TEXT_BYTES, (void *)name);
	}
}

/* Reports the note. */
static inline void tell_origin(struct event *event, u32 tid)
{
	struct told_origin *place = told_origin_of(tid);

	if (place->tid != tid || place->kind == UNTOLD)
		return;
	place->tid = 0;
	struct origin_record *record = next_record(event);
	record->what = place->what;
	record->since = place->since;
	record->number = place->number;
	record->kind = ORIGIN_RECORD;
	record->origin = place->kind;
	event->head++;
	u8 pieces = place->pieces;
	for (u32 piece = 0; piece < MOST_PIECES; piece++) {
		if (piece >= pieces)
			return;
		u32 *from = (u32 *)place->bytes + piece * (TEXT_BYTES / 4);
		u32 *to = next_record(event);
#pragma unroll
		for (u32 word = 0; word < TEXT_BYTES / 4; word++)
			to[word] = from[word];
		((struct more_record *)to)->kind = MORE;
		event->head++;
	}
}

/* The running thread, or the id that represents it. */
static inline u32 shown_current(u32 tid)
{
	if (!chosen(owned))
		return tid;
	return shown_tid(bpf_get_current_task_btf(), bpf_get_smp_processor_id());
}

/* sched_waking(task): notes the waker, and also writes a record if requested. */
SEC("tp_btf") int fxtrec_waking(u64 *args)
{
	struct task_struct *task = (void *)args[0];
	u32 in_interrupt;
	struct event event;

	if (chosen(scope_is) && !is_in_scope(task))
		return 0;
	u32 current = shown_current(current_or_interrupt(&in_interrupt)), tid = task->pid;
	/* If it is unknown whether an interrupt does it, no thread is named as the waker, rather than the wrong one. */
	u32 waker = chosen(interrupts_by) == NOTHING ? 0 : current;
	*waker_of(tid) = tid | (u64)(in_interrupt != 0) << 31 | (u64)waker << 32;
	if (chosen(reports_origins) && unlikely(in_interrupt))
		note_origin(tid, in_interrupt & ~SOFT_BITS);
	if (!chosen(reports_wakings))
		return 0;
	if (!begin_here(&event, task, FIRED_WAKING))
		return 0;
	tell_wake(&event, task, WAKING, current, waker, in_interrupt ? FLAG_FIRST : 0);
	return 0;
}

/* sched_wakeup_new(task), which no sched_waking precedes. Its creator is running. */
SEC("tp_btf") int fxtrec_wake_new(u64 *args)
{
	struct task_struct *task = (void *)args[0];
	u32 in_interrupt;
	struct event event;

	if (chosen(scope_is) && !is_in_scope(task))
		return 0;
	u32 current = shown_current(current_or_interrupt(&in_interrupt));
	u8 flags = in_interrupt ? FLAG_FIRST : 0;
	/* A thread that is not the first of its process belongs to its creator's process. */
	if (task->pid != task->tgid)
		flags |= FLAG_SAME_PROCESS;
	if (!begin_here(&event, task, FIRED_WAKEUP_NEW))
		return 0;
	if (chosen(scope_is))
		tell_who_is_waited_for(&event, task);
	check_is_woken(&event, task);
	tell_wake(&event, task, WAKEUP_NEW, current, chosen(interrupts_by) == NOTHING ? 0 : current, flags);
	return 0;
}

/* sched_wakeup(task): the waker was noted at the beginning, perhaps on another CPU. */
SEC("tp_btf") int fxtrec_wakeup(u64 *args)
{
	struct task_struct *task = (void *)args[0];
	struct event event;
	u32 waker = 0;
	u8 flags = 0;

	if (chosen(scope_is) && !is_in_scope(task))
		return 0;
	u32 current = shown_current(current_tid());
	if (!begin_here(&event, task, FIRED_WAKEUP))
		return 0;
	if (chosen(scope_is))
		tell_who_is_waited_for(&event, task);
	check_is_woken(&event, task);
	u32 tid = task->pid;
	u64 *place = waker_of(tid), note = *place;
	if ((note & 0x7fffffff) == tid) {
		/* A note is used once: a stale note is worse than none. */
		*place = 0;
		flags = note >> 31 & FLAG_FIRST;
		waker = note >> 32;
		if (chosen(reports_origins) && unlikely(flags))
			tell_origin(&event, tid);
	}
	tell_wake(&event, task, WAKEUP, current, waker, flags);
	return 0;
}
