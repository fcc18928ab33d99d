/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * A ring of records that one CPU fills. lane.rs describes it, and explains why it needs no locks.
 */
#ifndef FXTREC_LANE_H
#define FXTREC_LANE_H

#include "fxtrec.h"
#include "owner.h"

#define NAMES 1024
#define RECORD_BYTES 24

/* In `busy`: nothing is written or counted. */
#define CLOSED 2

struct name {
	u64 tid;
	u64 comm[2];
	u64 unused;
};

/* A call of futex(2) by a thread that may wait there. */
struct futex {
	u64 address;
	u32 operation;
	u32 value;
	/* The memory from the futex on: enough to tell whether it is a mutex of the C library, and which thread holds it. */
	u32 words[5];
	u32 unused;
};

struct lane {
	/* Written by the programs. */
	u64 head;
	u64 busy;
	u64 lost;
	u64 told;
	u64 shown;
	u64 nested;
	u64 stolen;
	/* How many threads in scope wait for the CPU: waits.h. */
	s64 waiting;
	u64 fired[5];
	u64 irq_ns;
	u64 irqs;
	u64 unused;
	/* What the reader writes. */
	u64 tail;
	u64 bell;
	/* Data of the switch that is being written; not on the stack, since a program that uses 64 bytes of it gets a slower one from the
	 * kernel. */
	u64 syscall;
	struct futex futex;
	u8 to_names[4096 - 192];
	struct name names[NAMES];
	u8 records[RECORD_BYTES];
};

enum kind {
	SWITCH = 1,
	WAKEUP,
	WAKEUP_NEW,
	WAKING,
	LOST,
	NAME,
	SLICE,
	THROTTLED,
	WAIT,
	MOVED,
	TAKEN,
	FUTEX,
	CONTENTION,
	CALL,
	ORIGIN_RECORD,
	MORE,
	OCCUPANT,
};

/* The counts of events. */
enum fired {
	FIRED_SWITCH,
	FIRED_WAKEUP,
	FIRED_WAKEUP_NEW,
	FIRED_WAKING,
	FIRED_MOVED,
};

/* The bits of flags. */
#define FLAG_FIRST 1
#define FLAG_SAME_PROCESS 2
#define FLAG_GOES_ON 2
#define FLAG_OF_QUEUES 4
#define FLAG_PREV_IN_SCOPE 2
#define FLAG_NEXT_IN_SCOPE 4
#define FLAG_WAITED_FOR 8
#define FLAG_NARROW 2

/* In place of the number of a system call. */
#define NO_SYSCALL 0xffff

struct switch_record {
	u64 time;
	u32 prev;
	u32 next;
	u16 state;
	u16 syscall;
	u8 kind;
	u8 flags;
	u8 prio;
	u8 next_prio;
};

/* The upper byte of the CPU is stored in the upper byte of the waker. */
struct wake_record {
	u64 time;
	u32 tid;
	u32 current;
	u32 waker;
	u8 kind;
	u8 flags;
	u8 prio;
	u8 cpu;
};

struct lost_record {
	u64 time;
	u64 count;
	u32 unused;
	u8 kind;
};

struct name_record {
	u64 comm[2];
	u32 tid;
	u8 kind;
};

struct slice_record {
	u64 stolen;
	u64 unused;
	u32 unused_too;
	u8 kind;
};

struct taken_record {
	u64 irq_ns;
	u64 asked_ns;
	u32 irqs;
	u8 kind;
	u8 flags;
};

struct throttled_record {
	u64 kept;
	u64 cgroup;
	u32 own_cgroup;
	u8 kind;
	u8 flags;
};

struct wait_record {
	u64 kept;
	u32 tid;
	u32 cpu;
	u32 own_cgroup;
	u8 kind;
	u8 flags;
};

struct moved_record {
	u64 time;
	u32 tid;
	u32 to_cpu;
	u32 from_cpu;
	u8 kind;
};

struct futex_record {
	u64 address;
	u32 word;
	u32 after_8;
	u32 value;
	u8 kind;
	u8 operation;
	u16 after_16;
};

struct contention_record {
	u64 address;
	u32 flags;
	u32 unused;
	u32 unused_too;
	u8 kind;
};

struct call_record {
	u64 time;
	u64 result;
	u32 tid;
	u8 kind;
	u8 flags;
	u16 number;
};

struct origin_record {
	u64 what;
	u64 since;
	u32 number;
	u8 kind;
	u8 origin;
};

struct more_record {
	u8 bytes[20];
	u8 kind;
};

struct occupant_record {
	u64 time;
	u32 tid;
	u32 cpu;
	u32 unused;
	u8 kind;
	u8 flags;
	u8 prio;
};

/* Names all of them to the object's description of types. */
union record {
	struct switch_record of_switch;
	struct wake_record of_wake;
	struct lost_record of_lost;
	struct name_record of_name;
	struct slice_record of_slice;
	struct taken_record of_taken;
	struct throttled_record of_throttled;
	struct wait_record of_wait;
	struct moved_record of_moved;
	struct futex_record of_futex;
	struct contention_record of_contention;
	struct call_record of_call;
	struct origin_record of_origin;
	struct more_record of_more;
	struct occupant_record of_occupant;
};

/* The lanes by CPU. */
MAP(lanes, BPF_MAP_TYPE_ARRAY_OF_MAPS, union record);
MAP(doorbell, BPF_MAP_TYPE_RINGBUF, struct lane);

/* One less than the number of records that fit into a lane, which is a power of two. */
CHOICE(last_record, 511);
/* The maximum number of unread records: room is left for the additional records of an event. */
CHOICE(most_records, 500);
/* The number of records after which the reader is woken. */
CHOICE(bell_records, 128);

/* An event that is being written: `head` counts the records before the next one. */
struct event {
	struct lane *lane;
	u64 time;
	u64 head;
};

/* The lane of this CPU; NULL for a CPU that has just come online. */
static inline struct lane *find_lane(u32 *cpu)
{
	u32 zero = 0;
	void *lane;

	*cpu = bpf_get_smp_processor_id();
	lane = bpf_map_lookup_elem(&lanes, cpu);
	return lane ? bpf_map_lookup_elem(lane, &zero) : NULL;
}

/* An address in the lane that is computed once: no store offset reaches this far, and registers are scarce. */
static inline void *in_lane(struct lane *lane, u64 place)
{
	asm("%0 += %1" : "+r"(place) : "r"(lane));
	return (void *)place;
}

static inline void *next_record(const struct event *event)
{
	u64 place = (event->head & chosen(last_record)) * RECORD_BYTES;

	return in_lane(event->lane, place + __builtin_offsetof(struct lane, records));
}

/* Marks the lane as busy, so that a program that interrupts this one does not use it; returns false in the interrupting program. */
static inline bool take_lane(struct lane *lane)
{
	u64 busy = lane->busy;

	if (unlikely(busy)) {
		if (busy != CLOSED)
			lane->nested++;
		return false;
	}
	*(volatile u64 *)&lane->busy = 1;
	return true;
}

static inline void let_go(struct lane *lane)
{
	barrier();
	*(volatile u64 *)&lane->busy = 0;
}

/* Takes the time, and reports losses. Returns whether the lane was acquired; if it is full, it is released again. */
static inline bool make_room(struct event *event)
{
	struct lane *lane = event->lane;
	u64 lost, told;

	event->time = bpf_ktime_get_ns();
	event->head = lane->head;
	if (unlikely(event->head - lane->tail >= chosen(most_records))) {
		lane->lost++;
		let_go(lane);
		return false;
	}
	lost = lane->lost;
	told = lane->told;
	if (unlikely(lost != told)) {
		struct lost_record *record = next_record(event);

		record->time = event->time;
		record->count = lost - told;
		record->kind = LOST;
		lane->told = lost;
		event->head++;
	}
	return true;
}

/* Tells what the thread is called that is shown by this id, if the lane remembers another name. */
static inline void tell_name_as(struct event *event, u32 tid, struct task_struct *task)
{
	u64 low, high;

	shown_name(tid, task, &low, &high);
	u64 place = (u64)(tid & (NAMES - 1)) * sizeof(struct name);
	struct name *known = in_lane(event->lane, place + __builtin_offsetof(struct lane, names));

	if (unlikely(known->tid != tid || known->comm[0] != low || known->comm[1] != high)) {
		struct name_record *record = next_record(event);

		record->tid = tid;
		record->comm[0] = low;
		record->comm[1] = high;
		record->kind = NAME;
		known->tid = tid;
		known->comm[0] = low;
		known->comm[1] = high;
		event->head++;
	}
}

static inline void tell_name(struct event *event, struct task_struct *task)
{
	tell_name_as(event, chosen(owned) ? shown_tid(task, bpf_get_smp_processor_id()) : (u32)task->pid, task);
}

/* Begins an event of a thread in the lane; false if there is no room for it. */
static inline bool begin(struct event *event, struct task_struct *task, enum fired fired)
{
	if (!event->lane || !take_lane(event->lane))
		return false;
	event->lane->fired[fired]++;
	if (!make_room(event))
		return false;
	tell_name(event, task);
	return true;
}

/* The same in the lane of this CPU. */
static inline bool begin_here(struct event *event, struct task_struct *task, enum fired fired)
{
	u32 cpu;

	event->lane = find_lane(&cpu);
	return begin(event, task, fired);
}

/* Publishes the records up to and including this one, which is complete. */
static inline void publish(struct event *event)
{
	struct lane *lane = event->lane;
	u64 head = event->head + 1;

	barrier();
#if defined(__TARGET_ARCH_x86)
	/* Stores are not reordered. */
	*(volatile u64 *)&lane->head = head;
#else
	__sync_lock_test_and_set(&lane->head, head);
#endif
	let_go(lane);
	if (unlikely(head >= lane->bell)) {
		lane->bell = head + chosen(bell_records);
		ring(&doorbell, &lane->head);
	}
}

#endif
