/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * The threads that quotas hold back: the records for a thread that begins to wait, is switched in, or is moved.
 *
 * Since Linux 6.18 the kernel marks each thread that a quota takes off its queue; the mark is reported when the thread is switched out.
 * Older kernels take the whole queue off the CPU without notifying its threads: a thread may have waited long before, and through several
 * periods. On these kernels, the throttled time of its queue so far is reported at both ends of every wait, and for both queues of a move;
 * the difference is how long the thread was throttled. For queues that were never throttled, which are most, nothing is reported.
 */
#ifndef FXTREC_THROTTLE_H
#define FXTREC_THROTTLE_H

#include "lane.h"
#include "state.h"

/* Whether throttling is reported. */
CHOICE(reports_throttles, 0);

/* The maximum number of parent groups that are searched for a used-up quota. */
#define LEVELS 8

static inline bool marks_tasks(void)
{
	return exists(((struct task_struct *)0)->throttled);
}

/* Whether quotas apply to the thread, by its kernel priority; queues do not show that. */
static inline bool is_fair(struct task_struct *task)
{
	return marks_tasks() || (u32)(task->prio - 100) < 40;
}

static inline u8 flags_of_queue(void)
{
	return marks_tasks() ? 0 : FLAG_OF_QUEUES;
}

/* Whether the queue was ever throttled. */
static inline bool has_history(struct cfs_rq *queue)
{
	return queue->throttled_clock_self_time | queue->throttled_clock_self;
}

/* How long the queue has been throttled so far, including the current period, by the clock of the queue in `near`. */
static inline u64 queue_time(struct cfs_rq *queue, struct cfs_rq *near)
{
	u64 since = queue->throttled_clock_self, kept = 0;

	if (since) {
		u64 now = near->rq->clock;

		kept = now > since ? now - since : 0;
	}
	return kept + queue->throttled_clock_self_time;
}

static inline u64 cgroup_of(struct cfs_rq *queue)
{
	return queue->tg->css.cgroup->kn->id;
}

/* Reports whose quota keeps the thread from running. */
static inline void tell_throttled(struct event *event, struct task_struct *task)
{
	struct cfs_rq *queue = task->se.cfs_rq;
	struct throttled_record *record;
	u8 flags = flags_of_queue();
	u64 cgroup = 0;

	if (!is_fair(task))
		return;
	record = next_record(event);
	record->kept = queue_time(queue, queue);
	record->own_cgroup = cgroup_of(queue);
	if (marks_tasks() || queue->throttle_count) {
		struct sched_entity *parent = task->se.parent;

		flags |= FLAG_FIRST;
		if (queue->throttled_clock) {
			cgroup = cgroup_of(queue);
		} else {
#pragma unroll
			for (int level = 0; level < LEVELS; level++) {
				if (!parent)
					break;
				queue = parent->cfs_rq;
				if (queue->throttled_clock) {
					cgroup = cgroup_of(queue);
					break;
				}
				parent = parent->parent;
			}
		}
	}
	record->cgroup = cgroup;
	record->flags = flags;
	record->kind = THROTTLED;
	event->head++;
}

/* The same for an outgoing thread, if a quota keeps it from running. */
static inline void check_goes_out(struct event *event, u64 *args, struct task_struct *prev)
{
	if (!chosen(reports_throttles))
		return;
	if (marks_tasks()) {
		if (unlikely(prev->throttled))
			tell_throttled(event, prev);
	} else if ((args[0] || state_of(args, prev) == 0) && unlikely(has_history(prev->se.cfs_rq))) {
		tell_throttled(event, prev);
	}
}

/* The same for a thread that is woken. */
static inline void check_is_woken(struct event *event, struct task_struct *task)
{
	if (chosen(reports_throttles) && !marks_tasks() && unlikely(has_history(task->se.cfs_rq)))
		tell_throttled(event, task);
}

static inline void tell_wait(struct event *event, struct task_struct *task, struct cfs_rq *queue, u64 kept, u32 cpu, u8 flags)
{
	struct wait_record *record = next_record(event);

	record->kept = kept;
	record->tid = task->pid;
	record->cpu = cpu;
	record->own_cgroup = cgroup_of(queue);
	record->kind = WAIT;
	record->flags = flags;
	event->head++;
}

/* Reports how long the queue that the thread leaves was throttled so far, if ever. */
static inline void check_wait(struct event *event, struct task_struct *task)
{
	struct cfs_rq *queue;

	if (!chosen(reports_throttles))
		return;
	queue = task->se.cfs_rq;
	if (marks_tasks()) {
		/* A current period does not concern an incoming thread. */
		u64 kept = queue->throttled_clock_self_time;

		if (unlikely(kept))
			tell_wait(event, task, queue, kept, cpu_of(task), 0);
	} else if (unlikely(has_history(queue)) && is_fair(task)) {
		u8 goes_on = queue->throttled_clock_self ? FLAG_GOES_ON : 0;

		tell_wait(event, task, queue, queue_time(queue, queue), cpu_of(task), FLAG_OF_QUEUES | goes_on);
	}
}

/* Reports the same for the queue on this CPU that the thread is moved to, after the record of the move. */
static inline void tell_new_queue(struct event *event, struct task_struct *task, u32 cpu)
{
	struct cfs_rq *queue;

	if (!chosen(reports_throttles) || marks_tasks())
		return;
	/* The address of an imaginary task whose queue field is the queue of that CPU. */
	queue = as_task((void *)(task->sched_task_group->cfs_rq + cpu) - offset_of(struct task_struct, se.cfs_rq))->se.cfs_rq;
	if (has_history(queue) && is_fair(task))
		/* The clock of the other CPU may be behind. */
		tell_wait(event, task, queue, queue_time(queue, task->se.cfs_rq), cpu, FLAG_OF_QUEUES | FLAG_FIRST);
}

#endif
