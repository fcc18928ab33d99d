/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Shared by all programs: how they call the kernel, the parameters that the loader sets, and the memory that they share with each other and
 * with user space.
 *
 * A program gets the arguments of its tracepoint as an array of eight-byte values. `recorder/kernel/src/bpf/object.rs` loads it.
 */
#ifndef FXTREC_H
#define FXTREC_H

#include "vmlinux.h"

#define SEC(name) __attribute__((section(name), used))
#define inline inline __attribute__((always_inline))

/* The license that is declared to the kernel: some of its functions are only for programs under the GPL. */
#define LICENSE char _license[] SEC("license") = "Dual MIT/GPL"

/*
 * Parameters that the loader sets, eight bytes each. The loader replaces the load by the value, so that the verifier knows it and removes
 * disabled code. So a parameter may only be loaded in this way; a plain use, in which the compiler would see the value that is here, does
 * not compile, since the variable has another name in C.
 */
#define CHOICE(name, value) const u64 choice_##name __asm__(#name) = value
#define chosen(name)                                                                   \
	({                                                                             \
		u64 value_;                                                            \
		asm volatile("%0 = " #name " ll\n%0 = *(u64 *)(%0 + 0)" : "=r"(value_)); \
		value_;                                                                \
	})

/* Memory that programs use without a lookup: the only value of an array map, which begins with one of this type. */
#define MEMORY(name, type_of_it)                \
	struct {                                \
		int(*type)[BPF_MAP_TYPE_ARRAY]; \
		u32 *key;                       \
		type_of_it *value;              \
		int(*max_entries)[1];           \
	} name SEC(".maps")

/* A map that programs look up, or pass to the kernel. */
#define MAP(name, type_of_map, type_of_it)      \
	struct {                                \
		int(*type)[type_of_map];        \
		u32 *key;                       \
		type_of_it *value;              \
		int(*max_entries)[1];           \
	} name SEC(".maps")

/* The address of its beginning. The compiler's view of the map's size does not matter. */
static inline void *memory(void *map)
{
	asm("" : "+r"(map));
	return map;
}

/* The offset of a field in this kernel's structure. */
#define offset_of(structure, field) __builtin_preserve_field_info(((structure *)0)->field, 0)

#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* Keeps the compiler from moving later accesses before earlier ones. */
#define barrier() asm volatile("" ::: "memory")

/* Makes the compiler forget a known value, so that it computes an address once, or keeps a bound that the verifier needs to see. */
#define as_made(value) asm("" : "+r"(value))

/* The kernel's functions, by number. */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static s64 (*const bpf_perf_event_output)(void *context, void *map, u64 flags, void *data, u64 bytes) = (void *)25;
static s64 (*const bpf_get_stackid)(void *context, void *map, u64 flags) = (void *)27;
static u64 (*const bpf_get_current_task)(void) = (void *)35;
static s64 (*const bpf_get_stack)(void *context, void *to, u32 bytes, u64 flags) = (void *)67;
static s64 (*const bpf_probe_read_user)(void *to, u32 bytes, const void *from) = (void *)112;
static s64 (*const bpf_probe_read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static s64 (*const bpf_probe_read_kernel_str)(void *to, u32 bytes, const void *from) = (void *)115;
static s64 (*const bpf_ringbuf_output)(void *ring, void *data, u64 bytes, u64 flags) = (void *)130;
static s64 (*const bpf_get_task_stack)(struct task_struct *task, void *to, u32 bytes, u64 flags) = (void *)141;
static void *(*const bpf_this_cpu_ptr)(const void *variable) = (void *)154;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static u64 (*const bpf_get_attach_cookie)(void *context) = (void *)174;
static void *(*const bpf_task_pt_regs)(struct task_struct *task) = (void *)175;

/* `bpf_ringbuf_output`: always wakes the reader, or never. */
#define BPF_RB_NO_WAKEUP 1
#define BPF_RB_FORCE_WAKEUP 2

/* Wakes the waiting reader; returns false if the bell was rung too often. The contents do not matter: any eight bytes that a program may
 * read. */
static inline bool ring(void *bell, void *bytes)
{
	return bpf_ringbuf_output(bell, bytes, 8, BPF_RB_FORCE_WAKEUP) == 0;
}

/* `bpf_perf_event_output`: to the event of this CPU. */
#define BPF_F_CURRENT_CPU 0xffffffff

/* The functions of stacks: that of the program, not that of the kernel. */
#define BPF_F_USER_STACK (1 << 8)

/*
 * Functions and types without a fixed number in the kernel have a placeholder here; the loader puts the right number in its place (object.rs). A
 * kernel without such a function gets programs that do not use it.
 */
static void *(*const bpf_rdonly_cast)(const void *address, u32 type) = (void *)0x10001;

/* The per-CPU variable in which x86 counts interrupts, or which contains that count. */
static inline void *interrupt_variable(void)
{
	void *variable;

	asm("%0 = 0x10002 ll" : "=r"(variable));
	return variable;
}

/* Casts an address to which no type leads to a task: then programs may read from it. */
static inline struct task_struct *as_task(const void *address)
{
	u32 task;

	asm("%0 = 0x10003 ll" : "=r"(task));
	return bpf_rdonly_cast(address, task);
}

/* The CPU that the thread is on. In the architecture's part of the task since Linux 5.16. */
static inline u32 cpu_of(struct task_struct *task)
{
	if (exists(task->thread_info.cpu))
		return task->thread_info.cpu;
	return ((struct task_struct___5_15 *)task)->cpu;
}

#endif
