/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Which threads in scope wait for a CPU, and for which one. While any does, all switches of that CPU are reported, and so is the thread
 * that has it already: these are the threads that it waits for.
 *
 * A thread is switched in and out, and woken, while the kernel holds the lock of its queue, so the thread that has the CPU is certain.
 */
#ifndef FXTREC_WAITS_H
#define FXTREC_WAITS_H

#include "lane.h"

#define WAITS (64 * 1024)

/*
 * A place is found by the lower bits of a thread's id. Its upper half is the id of the thread that waits, the lower one the CPU and 1; it
 * is 0 if none waits. If two threads that wait share a place, the second one's wait is not noted, and nothing is reported for it.
 */
MEMORY(waits, u64);

static inline u64 *wait_of(u32 tid)
{
	u64 *places = memory(&waits);
	u64 *place = &places[tid & (WAITS - 1)];

	as_made(place);
	return place;
}

/* The lane of a CPU, most often the one of the event. */
static inline struct lane *lane_of(u32 cpu, const struct event *event)
{
	u32 zero = 0;
	void *lane;

	if (cpu == bpf_get_smp_processor_id())
		return event->lane;
	lane = bpf_map_lookup_elem(&lanes, &cpu);
	return lane ? bpf_map_lookup_elem(lane, &zero) : NULL;
}

/* Below 0 if the lane is newer than the wait. */
static inline bool is_waited_for(const struct lane *lane)
{
	return *(volatile const s64 *)&lane->waiting > 0;
}

/* Other CPUs change it as well: a thread is moved without the lock of the queue that it comes to. */
static inline void count_waiting(u32 cpu, const struct event *event, s64 change)
{
	struct lane *lane = lane_of(cpu, event);

	if (lane)
		__sync_fetch_and_add(&lane->waiting, change);
}

static inline bool is_noted(u32 tid)
{
	u64 found = *wait_of(tid);

	return found && found >> 32 == tid;
}

static inline void end_wait(u32 tid, const struct event *event)
{
	u64 *place = wait_of(tid), found = *place;

	if (!found || found >> 32 != tid)
		return;
	*place = 0;
	count_waiting((u32)found - 1, event, -1);
}

/* One that was noted with another CPU is moved. */
static inline void begin_wait(u32 tid, u32 cpu, const struct event *event)
{
	u64 *place = wait_of(tid), found = *place, own = (u64)tid << 32 | (cpu + 1);

	if (found == own || (found && found >> 32 != tid))
		return;
	*place = own;
	if (found)
		count_waiting((u32)found - 1, event, -1);
	count_waiting(cpu, event, 1);
}

/* Reports the thread that has this CPU, unless the last switch there was reported. Then so is the next one. */
static inline void tell_occupant(struct event *event, struct lane *lane, struct task_struct *occupant, u32 cpu)
{
	struct occupant_record *record;
	u32 tid;

	if (!lane || lane->shown)
		return;
	lane->shown = FLAG_WAITED_FOR;
	tid = chosen(owned) ? shown_tid(occupant, cpu) : (u32)occupant->pid;
	tell_name_as(event, tid, occupant);
	record = next_record(event);
	record->time = event->time;
	record->tid = tid;
	record->cpu = cpu;
	record->kind = OCCUPANT;
	record->prio = chosen(owned) && is_hidden(occupant) ? USUAL_PRIO : occupant->prio;
	event->head++;
}

/* A thread in scope is woken, and waits for the CPU whose queue it is in now. */
static inline void tell_who_is_waited_for(struct event *event, struct task_struct *task)
{
	u32 tid = task->pid, cpu = cpu_of(task);

	if (!exists(((struct rq *)0)->curr))
		return;
	struct task_struct *occupant = task->se.cfs_rq->rq->curr;
	/* Else it was woken before it was switched out. */
	if ((u32)occupant->pid == tid)
		return;
	begin_wait(tid, cpu, event);
	tell_occupant(event, lane_of(cpu, event), occupant, cpu);
}

/* The same of a thread that is moved, if it waits. Only the thread on this CPU is certain. */
static inline void follow_wait(struct event *event, struct task_struct *task, u32 to)
{
	u32 tid = task->pid;

	if (!is_noted(tid))
		return;
	begin_wait(tid, to, event);
	if (to == bpf_get_smp_processor_id())
		tell_occupant(event, event->lane, bpf_get_current_task_btf(), to);
}

#endif
