/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * What the programs use of the kernel's types, by the kernel's names. Offsets are not those of any kernel: the loader puts those of
 * the running one into the instructions (CO-RE). A structure with three underscores in its name is one as older kernels have it; what
 * comes behind them does not count.
 */
#ifndef FXTREC_VMLINUX_H
#define FXTREC_VMLINUX_H

/* Whether the running kernel's structures have a field. */
#define exists(field) __builtin_preserve_field_info(field, 2)
/* Whether it defines a type just so. */
#define is_defined(type) __builtin_preserve_type_info(*(type *)0, 0)

typedef signed char s8;
typedef unsigned char u8;
typedef short s16;
typedef unsigned short u16;
typedef int s32;
typedef unsigned int u32;
typedef long long s64;
typedef unsigned long long u64;
typedef _Bool bool;

#define false 0
#define true 1
#define NULL ((void *)0)

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};

/* `contention_begin`: the thread does not sleep, nobody else gets its CPU. */
#define LCB_F_SPIN 1

/* Threads that never entered the kernel, and have no registers there. */
#define PF_IO_WORKER 0x00000010
#define PF_WQ_WORKER 0x00000020
#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD 0x00200000

#define TASK_INTERRUPTIBLE 0x0001
#define TASK_UNINTERRUPTIBLE 0x0002
#define __TASK_STOPPED 0x0004
#define __TASK_TRACED 0x0008
#define TASK_PARKED 0x0040
#define TASK_DEAD 0x0080
#define TASK_IDLE 0x0402
#define TASK_RTLOCK_WAIT 0x1000
#define TASK_FROZEN 0x8000

/* x86: a 32-bit system call, while it lasts. arm64: a 32-bit program. */
#define TS_COMPAT 0x02
#define TIF_32BIT 22

#if defined(__TARGET_ARCH_x86)
#define SYS_futex 202
#elif defined(__TARGET_ARCH_arm64)
#define SYS_futex 98
#endif

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_info {
	unsigned long flags;
	u32 status;
	u32 preempt_count;
	u32 cpu;
};

struct kernfs_node {
	u64 id;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct rq {
	u64 clock;
	u64 prev_steal_time_rq;
	struct task_struct *curr;
};

struct task_group {
	struct cgroup_subsys_state css;
	struct cfs_rq **cfs_rq;
};

struct cfs_rq {
	struct rq *rq;
	struct task_group *tg;
	u64 throttled_clock;
	u64 throttled_clock_self;
	u64 throttled_clock_self_time;
	int throttle_count;
};

struct sched_entity {
	struct sched_entity *parent;
	struct cfs_rq *cfs_rq;
};

/* Where x86 counted interrupts from Linux 6.1 to 6.14. */
struct pcpu_hot {
	int preempt_count;
};

struct hrtimer {
	void *function;
	u8 is_soft;
};

struct timer_list {
	void *function;
};

struct super_block {
	u32 s_dev;
	char s_id[32];
};

struct inode {
	u16 i_mode;
	struct super_block *i_sb;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct net_device_ops {
	void *ndo_get_peer_dev;
};

struct net_device {
	const struct net_device_ops *netdev_ops;
	unsigned int flags;
	unsigned int mtu;
	u64 features;
};

struct upid {
	int nr;
};

struct pid {
	struct upid numbers[1];
};

struct in6_addr {
	u8 in6_u[16];
};

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol;
	struct pid *sk_peer_pid;
};

struct socket {
	struct sock *sk;
};

struct sk_buff {
	struct sk_buff *next;
	struct sk_buff *prev;
	struct sock *sk;
	struct net_device *dev;
	unsigned int len;
	unsigned int data_len;
	u16 protocol;
	unsigned char *data;
	unsigned int truesize;
};

struct gendisk {
	char disk_name[32];
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	u64 start_time_ns;
};

/* Before Linux 5.17. */
struct request___5_16 {
	struct gendisk *rq_disk;
};

struct irqaction {
	const char *name;
};

/* Before Linux 6.18. */
struct mm_struct {
	unsigned long flags;
};

typedef struct {
	unsigned long __mm_flags[1];
} mm_flags_t;

struct mm_struct___6_18 {
	mm_flags_t flags;
};

typedef struct {
	unsigned int val;
} kuid_t;

struct cred {
	kuid_t uid;
	kuid_t suid;
	kuid_t euid;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	/* An `int` until it became a byte (seen in Linux 7.3); only loads of unsigned fields are made shorter. */
	unsigned int on_rq;
	int prio;
	struct sched_entity se;
	struct task_group *sched_task_group;
	struct mm_struct *mm;
	int exit_state;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	char comm[16];
	struct css_set *cgroups;
	struct cred *real_cred;
	bool throttled;
};

/* Few programs ask for it. */
struct task_struct___files {
	struct files_struct *files;
};

/* Before Linux 5.14. */
struct task_struct___5_13 {
	long state;
};

/* Before Linux 5.16. */
struct task_struct___5_15 {
	unsigned int cpu;
};

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
	unsigned long fsbase;
};

/* Where the thread's own memory is, which few programs ask for. */
struct task_struct___x86 {
	struct thread_struct thread;
};

struct pt_regs {
	unsigned long bp;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long sp;
};
#elif defined(__TARGET_ARCH_arm64)
/* Begins with those of the user interface. */
struct pt_regs {
	u64 regs[31];
	u64 sp;
	u64 pc;
	s32 syscallno;
};

/* What the first register was when the call began. */
struct pt_regs___first {
	u64 orig_x0;
};
#endif

#pragma clang attribute pop

/* Since Linux 5.18, with the state of the thread that goes out. */
typedef void (*btf_trace_sched_switch)(void *data, bool preempted, struct task_struct *prev, struct task_struct *next, unsigned int state);

/* Since Linux 5.11; before, the queue came first. */
typedef void (*btf_trace_block_rq_issue)(void *data, struct request *rq);

#endif
