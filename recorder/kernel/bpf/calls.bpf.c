// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * The programs on system calls, which write into separate lanes.
 *
 * A system call is entered with interrupts on, and an interrupt in the middle of its program may wake a thread. So the records of calls do
 * not share a lane with those of switches and wake-ups, which would find it busy. If a kernel preempts the program in favour of another
 * thread that makes a call, that call is counted, and reported as lost.
 */
#include "lane.h"

LICENSE;

/* Numbers from this one on do not belong to a call, but to a return from a signal. */
#define NO_CALL 0x7fff

/* Numbers of calls are below this. */
#define NUMBERS 1024

/* Whether only calls of a set are reported, and the set: a bit for each number. */
CHOICE(are_numbers, 0);
MEMORY(numbers, u64);

static inline int call(u64 number, bool ends, u64 result)
{
	struct event event;
	u32 cpu;

	if (chosen(are_numbers)) {
		u64 *words = memory(&numbers);

		if (number >= NUMBERS || !(words[number / 64] >> (number & 63) & 1))
			return 0;
	}
	/* Marks an end without a call, or an end of a call with an impossible number. */
	if (number >= NO_CALL)
		number = -1;
	struct task_struct *current = bpf_get_current_task_btf();
	event.lane = find_lane(&cpu);
	if (!event.lane || !take_lane(event.lane) || !make_room(&event))
		return 0;
	struct call_record *record = next_record(&event);
	record->time = event.time;
	record->result = result;
	record->tid = current->pid;
	record->kind = CALL;
	record->number = number;
	bool narrow = false;
#if defined(__TARGET_ARCH_x86)
	narrow = current->thread_info.status & TS_COMPAT;
#elif defined(__TARGET_ARCH_arm64)
	narrow = current->thread_info.flags >> TIF_32BIT & 1;
#endif
	record->flags = (ends ? FLAG_FIRST : 0) | (narrow ? FLAG_NARROW : 0);
	publish(&event);
	return 0;
}

/* sys_enter(registers, number) */
SEC("tp_btf") int fxtrec_call(u64 *args)
{
	return call(args[1], false, 0);
}

/* sys_exit(registers, result) */
SEC("tp_btf") int fxtrec_call_end(u64 *args)
{
	struct pt_regs *registers = (void *)args[0];
	u64 number = -1;

#if defined(__TARGET_ARCH_x86)
	number = registers->orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	number = (u32)registers->syscallno;
#endif
	return call(number, true, args[1]);
}
