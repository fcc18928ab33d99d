// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * Figures without records: sums up the states of threads and their lengths, by cgroup or by thread. See counts/layout.rs.
 */
#include "cgroup.h"
#include "hash.h"
#include "state.h"

LICENSE;

/* The state of a thread. States before STOPPED have a histogram of their lengths. */
enum doing {
	UNKNOWN,
	WOKEN,
	PREEMPTED,
	RUNNING,
	BLOCKED,
	BLOCKED_D,
	STOPPED,
	/* It left a CPU because its quota is used up (reported since Linux 6.18). */
	THROTTLED,
};

/* The slot of a thread is found by the lower bits of its id. */
#define PLACES (128 * 1024)

/* The bits of `doing`: the upper bits of the thread's id, then the state, then its start. */
#define DOING_BIT 5
#define SINCE_BIT 8

struct place {
	u64 doing;
	u64 kept;
};

/* In `kept`: the value is how long the thread was throttled, not how long its queue had been throttled at the start. */
#define IS_KNOWN (1ull << 62)

#define BUCKETS 42
/* The highest bit of the bound of the first bucket, in nanoseconds, and the bucket above all bounds. */
#define FIRST_BIT 5
#define LAST_BIT (FIRST_BIT + BUCKETS - 1)

struct histogram {
	u64 sum;
	u64 max;
	/* Durations whose beginning or end is unknown. */
	u32 censored;
	u32 unused;
	u32 buckets[BUCKETS];
};

struct slot {
	/* The id of the cgroup, or of the thread; 0 for a free slot. */
	u64 key;
	u64 comm[2];
	u64 steal_ns;
	u64 throttled_ns;
	u32 steals;
	u32 throttles;
	/* Threads that were switched in after an unknown wait. */
	u32 unknown;
	u32 process;
	u64 unused;
	/* Indexed by state, from WOKEN on. */
	struct histogram histograms[BLOCKED_D];
};

struct cpu {
	/* The table in which programs currently count. Written by user space. */
	u64 table;
	/* Slots that were given to another thread while the first one was still using them. */
	u64 evicted;
	/* How often a table was full. */
	u64 overflowed;
	/* The CPU's stolen time at the last switch. */
	u64 stolen;
	u64 unused[12];
	/* The slots of the first table, followed by those of the second. The last slot of each table is for all keys that found none. */
	struct slot slots[1];
};

enum key_by {
	BY_CGROUP,
	/* Keyed by cgroup and thread name. */
	BY_NAME,
	BY_THREAD,
};

MEMORY(places, struct place);
MAP(cpus, BPF_MAP_TYPE_ARRAY, struct cpu);

CHOICE(key_by, BY_CGROUP);
/* The maximum number of slots to which a hash may lead. */
CHOICE(slots, 16);
CHOICE(counts_steal, 0);
CHOICE(counts_throttles, 0);

static inline struct cpu *this_cpu(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

static inline struct place *place_of(u32 tid)
{
	struct place *all = memory(&places);
	struct place *place = &all[tid & (PLACES - 1)];

	as_made(place);
	return place;
}

/* Notes the new state of the thread. */
static inline void begin(struct place *place, u32 tid, enum doing doing, u64 now)
{
	place->doing = now << SINCE_BIT | doing << DOING_BIT | tid / PLACES;
}

/* The noted state of the thread, or 0. */
static inline u64 noted(struct cpu *cpu, struct place *place, u32 tid)
{
	u64 note = place->doing;

	if (note && (note & ((1 << DOING_BIT) - 1)) != tid / PLACES) {
		cpu->evicted++;
		return 0;
	}
	return note;
}

static inline u64 did(u64 note)
{
	return note >> DOING_BIT & ((1 << (SINCE_BIT - DOING_BIT)) - 1);
}

/* How long the thread was in that state. If the clocks of two CPUs differ, a negative duration counts as 0. */
static inline u64 passed(u64 note, u64 now)
{
	s64 nanos = (s64)((now << SINCE_BIT | ((1 << SINCE_BIT) - 1)) - note) >> SINCE_BIT;

	return nanos < 0 ? 0 : nanos;
}

/* A product whose bounds the verifier of Linux 5.10 can derive; it needs to know the second factor. */
static inline u64 times(u64 value, u64 choice)
{
	asm("%0 *= %1" : "+r"(value) : "r"(choice));
	return value;
}

static inline struct slot *table_of(struct cpu *cpu)
{
	return cpu->slots + times(*(volatile u64 *)&cpu->table & 1, chosen(slots) + PROBES);
}

static inline u64 mixed(u64 hash, u64 part)
{
	hash = hash * MIX ^ part;
	return hash ^ hash >> 29;
}

static inline u64 half_of_name(struct task_struct *task, int half)
{
	return *(u64 *)(task->comm + 8 * half);
}

static inline bool has_name(struct slot *slot, struct task_struct *task)
{
	return slot->comm[0] == half_of_name(task, 0) && slot->comm[1] == half_of_name(task, 1);
}

/* The slot in which this thread is counted. */
static inline struct slot *slot_of(struct cpu *cpu, struct task_struct *task)
{
	u64 key = chosen(key_by) == BY_THREAD ? (u32)task->pid : cgroup_of_task(task), hash = key;

	if (chosen(key_by) == BY_NAME)
		hash = mixed(mixed(hash, half_of_name(task, 0)), half_of_name(task, 1));
	struct slot *slot = table_of(cpu) + (times((u32)(hash * MIX), chosen(slots)) >> 32);
	for (int probe = 0; probe < PROBES; probe++, slot++) {
		u64 found = slot->key;

		if (found == key && (chosen(key_by) != BY_NAME || has_name(slot, task)))
			return slot;
		if (found == 0) {
			slot->key = key;
			slot->comm[0] = half_of_name(task, 0);
			slot->comm[1] = half_of_name(task, 1);
			slot->process = task->tgid;
			return slot;
		}
	}
	cpu->overflowed++;
	return table_of(cpu) + chosen(slots) + PROBES - 1;
}

/* The number of the highest bit, computed by subtraction, since branches would be unpredictable. */
static inline u64 highest_bit(u64 value)
{
	u64 bit = 0;

#pragma unroll
	for (int half = 5; half >= 0; half--) {
		u64 above = ((1ull << (1 << half)) - 1 - value) >> 63 << half;

		value >>= above;
		bit |= above;
	}
	return bit;
}

/* The first bucket whose bound is not below the value: bounds are powers of two of a second, starting at 2^-24, and each has a different
 * highest bit. */
static inline u64 bucket_of(u64 nanos)
{
	if (nanos > 1ull << LAST_BIT)
		nanos = 1ull << LAST_BIT;
	u64 bucket = highest_bit(nanos | 1 << FIRST_BIT) - FIRST_BIT;
	/* 10^9 / 2^24 is 5^9 / 2^15. */
	u64 bound = (1953125ull << bucket) >> 15;
	return bucket + ((bound - nanos) >> 63);
}

static inline void count(struct histogram *histogram, u64 nanos)
{
	u64 bucket = bucket_of(nanos);

	histogram->sum += nanos;
	if (nanos > histogram->max)
		histogram->max = nanos;
	as_made(bucket);
	/* The verifier needs to see this bound. */
	if (bucket < BUCKETS)
		histogram->buckets[bucket]++;
}

static inline struct histogram *histogram_of(struct slot *slot, u64 did)
{
	return &slot->histograms[did - WOKEN];
}

/* The new state of the outgoing thread; UNKNOWN if it has ended. */
static inline u64 does_next(u64 *args, struct task_struct *prev)
{
	u64 state = state_of(args, prev);

	if (!args[0] && state) {
		if (state & TASK_DEAD)
			return UNKNOWN;
		/* Reported as uninterruptible. */
		if (state & (TASK_RTLOCK_WAIT | TASK_FROZEN))
			return BLOCKED_D;
		/* An idle kernel thread. */
		if ((state & TASK_IDLE) == TASK_IDLE || state & TASK_PARKED)
			return BLOCKED;
		if (state & (__TASK_STOPPED | __TASK_TRACED))
			return STOPPED;
		if (state & TASK_UNINTERRUPTIBLE)
			return BLOCKED_D;
		if (state & TASK_INTERRUPTIBLE)
			return BLOCKED;
	}
	return chosen(counts_throttles) && prev->throttled ? THROTTLED : PREEMPTED;
}

/* A thread is throttled from now on: notes how long its queue has been throttled so far. */
static inline void note_kept(struct place *place, struct task_struct *task)
{
	struct cfs_rq *queue = task->se.cfs_rq;

	place->kept = queue->rq->clock - queue->throttled_clock_self + queue->throttled_clock_self_time;
}

/* How long the thread was throttled. If its queue's count has not grown, the thread left the queue throttled, so it was throttled all the
 * time. */
static inline u64 was_kept(struct place *place, struct task_struct *task)
{
	u64 kept = place->kept, total = task->se.cfs_rq->throttled_clock_self_time;

	if (kept & IS_KNOWN)
		return kept & ~IS_KNOWN;
	return total < kept ? IS_KNOWN - 1 : total - kept;
}

/* Counts the slice of an outgoing thread; returns the slot if the slice is complete. */
static inline struct slot *count_slice(struct cpu *cpu, u64 *args, struct task_struct *prev, u64 now)
{
	u32 tid = prev->pid;
	struct place *place = place_of(tid);
	u64 note, next;

	if (!tid)
		return NULL;
	note = noted(cpu, place, tid);
	next = does_next(args, prev);
	if (next == UNKNOWN) {
		place->doing = 0;
	} else {
		begin(place, tid, next, now);
		if (chosen(counts_throttles) && next == THROTTLED)
			note_kept(place, prev);
	}
	struct slot *slot = slot_of(cpu, prev);
	if (did(note) != RUNNING) {
		histogram_of(slot, RUNNING)->censored++;
		return NULL;
	}
	count(histogram_of(slot, RUNNING), passed(note, now));
	return slot;
}

/* Counts the time that the host took from this CPU since the last switch; it is reported for the incoming thread's queue. */
static inline void count_stolen(struct cpu *cpu, struct slot *slot, struct task_struct *next)
{
	u64 stolen = next->se.cfs_rq->rq->prev_steal_time_rq, before = cpu->stolen;

	if (stolen == before)
		return;
	cpu->stolen = stolen;
	/* The initial value is the maximum. */
	if (slot && stolen > before) {
		slot->steal_ns += stolen - before;
		slot->steals++;
	}
}

/* Counts the wait of an incoming thread. */
static inline void count_wait(struct cpu *cpu, struct task_struct *next, u64 now)
{
	u32 tid = next->pid;
	struct place *place = place_of(tid);
	u64 note;

	if (!tid)
		return;
	note = noted(cpu, place, tid);
	begin(place, tid, RUNNING, now);
	struct slot *slot = slot_of(cpu, next);
	u64 before = did(note), nanos = passed(note, now);
	if (chosen(counts_throttles) && before == THROTTLED) {
		u64 kept = was_kept(place, next);

		if (kept > nanos)
			kept = nanos;
		if (kept) {
			slot->throttled_ns += kept;
			slot->throttles++;
		}
		nanos -= kept;
		before = PREEMPTED;
	}
	if (before == WOKEN || before == PREEMPTED) {
		count(histogram_of(slot, before), nanos);
	} else if (before == UNKNOWN || before == RUNNING) {
		slot->unknown++;
	} else {
		/* Its wake-up was not seen. */
		histogram_of(slot, WOKEN)->censored++;
		if (before != STOPPED)
			histogram_of(slot, before == BLOCKED ? BLOCKED : BLOCKED_D)->censored++;
	}
}

/* sched_switch(preempted, prev, next, prev_state) */
SEC("tp_btf") int fxtrec_count(u64 *args)
{
	struct task_struct *prev = (void *)args[1], *next = (void *)args[2];
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	u64 now = bpf_ktime_get_ns();
	struct slot *slot = count_slice(cpu, args, prev, now);
	if (chosen(counts_steal))
		count_stolen(cpu, slot, next);
	count_wait(cpu, next, now);
	return 0;
}

/* sched_wakeup_new(task): the thread is new, regardless of data about an earlier thread with its id. */
SEC("tp_btf") int fxtrec_count_n(u64 *args)
{
	struct task_struct *task = (void *)args[0];
	u32 tid = task->pid;

	begin(place_of(tid), tid, WOKEN, bpf_ktime_get_ns());
	return 0;
}

/* sched_wakeup(task) */
SEC("tp_btf") int fxtrec_count_w(u64 *args)
{
	struct task_struct *task = (void *)args[0];
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	u32 tid = task->pid;
	struct place *place = place_of(tid);
	u64 now = bpf_ktime_get_ns(), note = noted(cpu, place, tid), before = did(note);
	/* A thread that runs or waits for a CPU keeps its state. */
	if (before == WOKEN || before == PREEMPTED || before == RUNNING || before == THROTTLED)
		return 0;
	begin(place, tid, WOKEN, now);
	if (before != BLOCKED && before != BLOCKED_D)
		return 0;
	count(histogram_of(slot_of(cpu, task), before == BLOCKED ? BLOCKED : BLOCKED_D), passed(note, now));
	return 0;
}

/* sched_migrate_task(task, cpu), before the task is moved: the last moment at which its queue shows how long it was throttled. */
SEC("tp_btf") int fxtrec_count_m(u64 *args)
{
	struct task_struct *task = (void *)args[0];
	u32 tid = task->pid;
	struct place *place = place_of(tid);
	u64 found = place->doing & ((1 << SINCE_BIT) - 1);

	if (found == (THROTTLED << DOING_BIT | tid / PLACES))
		place->kept = was_kept(place, task) | IS_KNOWN;
	return 0;
}
