/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Restricts reports to the threads of one user, by their credentials at the event. Other threads are replaced by two pseudo-threads per
 * CPU, so that nothing about them is revealed: no id, name, priority or state.
 */
#ifndef FXTREC_OWNER_H
#define FXTREC_OWNER_H

#include "fxtrec.h"

/* Whether there is such a user, and which one. */
CHOICE(owned, 0);
CHOICE(owner, 0);

/*
 * The ids of what stands for others on the first CPU: beyond those of threads, and within the 24 bits of a waker. The lower 22 bits, which
 * users see, are above the ids of all but the largest machines, so that nobody takes them for those of a process.
 */
#define OTHER_USERS ((3u << 22) + (62 << 16))
#define KERNEL_THREADS (OTHER_USERS + (1 << 16))

/* The priority and the state that are reported for other users' threads. */
#define USUAL_PRIO 120
#define SLEEPS 1

/* Whether the user may see the thread, as for ptrace(2): a thread that executes a setuid program belongs to another user from then on. */
static inline bool is_of_owner(struct task_struct *task)
{
	struct cred *cred = task->real_cred;
	u32 user = chosen(owner);

	return !(task->flags & PF_KTHREAD) && cred->uid.val == user && cred->euid.val == user && cred->suid.val == user;
}

/* The bits in the flags of a program's memory for who may inspect it, and their value if its user may. */
#define DUMPABLE 3
#define BY_USER 1

/* Whether the user may see where in its program the thread is, again as for ptrace(2). */
static inline bool is_open_to_owner(struct task_struct *task)
{
	struct mm_struct *memory = task->mm;
	u64 flags;

	if (!memory || !is_of_owner(task))
		return false;
	if (exists(memory->flags))
		flags = memory->flags;
	else
		flags = ((struct mm_struct___6_18 *)memory)->flags.__mm_flags[0];
	return (flags & DUMPABLE) == BY_USER;
}

/* Whether the thread is replaced by a pseudo-thread. Every user may see the idle task. */
static inline bool is_hidden(struct task_struct *task)
{
	return chosen(owned) && task->pid != 0 && !is_of_owner(task);
}

/* The id of a thread, or of its pseudo-thread on this CPU. */
static inline u32 shown_tid(struct task_struct *task, u32 cpu)
{
	if (!is_hidden(task))
		return task->pid;
	return cpu + (task->flags & PF_KTHREAD ? KERNEL_THREADS : OTHER_USERS);
}

/* The names of the pseudo-threads. */
static inline void shown_name(u32 tid, struct task_struct *task, u64 *low, u64 *high)
{
	*low = *(u64 *)task->comm;
	*high = *(u64 *)(task->comm + 8);
	if (chosen(owned) && tid >= OTHER_USERS) {
		/* "another user" and "kernel thread", as little-endian words. */
		*low = tid >= KERNEL_THREADS ? 0x74206c656e72656b : 0x20726568746f6e61;
		*high = tid >= KERNEL_THREADS ? 0x6461657268 : 0x72657375;
	}
}

#endif
