/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Which threads are reported, if only those of one user are: by their credentials at the event. In the place of other threads
 * stand two of each CPU that there are not, so that nothing of the others gets out of here: no id, name, priority or state.
 */
#ifndef FXTREC_OWNER_H
#define FXTREC_OWNER_H

#include "fxtrec.h"

/* Whether there is such a user, and which. */
CHOICE(owned, 0);
CHOICE(owner, 0);

/*
 * The ids of what stands for others on the first CPU: beyond those of threads, and within the 24 bits of a waker. The lower 22 bits, which
 * users see, are above the ids of all but the largest machines, so that nobody takes them for those of a process.
 */
#define OTHER_USERS ((3u << 22) + (62 << 16))
#define KERNEL_THREADS (OTHER_USERS + (1 << 16))

/* What stands in the place of the priority and the state of others. */
#define USUAL_PRIO 120
#define SLEEPS 1

/* Whether the user may know about it, as for ptrace(2): one that executes a setuid program is another user's from then on. */
static inline bool is_of_owner(struct task_struct *task)
{
	struct cred *cred = task->real_cred;
	u32 user = chosen(owner);

	return !(task->flags & PF_KTHREAD) && cred->uid.val == user && cred->euid.val == user && cred->suid.val == user;
}

/* The bits of the flags of a program's memory that say who may look into it, and what they are if its user may. */
#define DUMPABLE 3
#define BY_USER 1

/* Whether the user may know where in its program the thread is, again as for ptrace(2). */
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

/* Whether something else stands for the thread. All know the idle task. */
static inline bool is_hidden(struct task_struct *task)
{
	return chosen(owned) && task->pid != 0 && !is_of_owner(task);
}

/* The id of a thread, or of what stands for it on this CPU. */
static inline u32 shown_tid(struct task_struct *task, u32 cpu)
{
	if (!is_hidden(task))
		return task->pid;
	return cpu + (task->flags & PF_KTHREAD ? KERNEL_THREADS : OTHER_USERS);
}

/* What these are called. */
static inline void shown_name(u32 tid, struct task_struct *task, u64 *low, u64 *high)
{
	*low = *(u64 *)task->comm;
	*high = *(u64 *)(task->comm + 8);
	if (chosen(owned) && tid >= OTHER_USERS) {
		/* "another user" and "kernel thread", of little-endian words. */
		*low = tid >= KERNEL_THREADS ? 0x74206c656e72656b : 0x20726568746f6e61;
		*high = tid >= KERNEL_THREADS ? 0x6461657268 : 0x72657375;
	}
}

#endif
