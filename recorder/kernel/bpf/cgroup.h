/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
#ifndef FXTREC_CGROUP_H
#define FXTREC_CGROUP_H

#include "fxtrec.h"

/* By which hierarchy threads are told apart: by that of version 2, or by that of the controller of CPUs. */
CHOICE(by_controller, 0);

/* The number of the cgroup that the thread is in. */
static inline u64 cgroup_of_task(struct task_struct *task)
{
	u64 id = chosen(by_controller) ? task->sched_task_group->css.cgroup->kn->id : task->cgroups->dfl_cgrp->kn->id;

	/* A group that the kernel made for a session of a terminal belongs to no cgroup but the root. */
	return id ? id : 1;
}

#endif
