/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
#ifndef FXTREC_CGROUP_H
#define FXTREC_CGROUP_H

#include "fxtrec.h"

/* The hierarchy by which threads are distinguished: that of version 2, or that of the CPU controller. */
CHOICE(by_controller, 0);

/* The id of the thread's cgroup. */
static inline u64 cgroup_of_task(struct task_struct *task)
{
	u64 id = chosen(by_controller) ? task->sched_task_group->css.cgroup->kn->id : task->cgroups->dfl_cgrp->kn->id;

	/* An autogroup, which the kernel creates for a terminal session, belongs to no cgroup but the root. */
	return id ? id : 1;
}

#endif
