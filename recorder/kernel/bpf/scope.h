/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Which threads are reported, if not all: the threads of a set (scope.rs), or of processes in some cgroups (groups.rs).
 */
#ifndef FXTREC_SCOPE_H
#define FXTREC_SCOPE_H

#include "cgroup.h"
#include "hash.h"
#include "owner.h"
#include "set.h"

#define GROUPS_BITS 14
#define GROUPS (1 << GROUPS_BITS)

/* Two sets of cgroup ids; 0 for an empty slot. */
struct groups {
	u64 members[GROUPS + PROBES];
	/* Cgroups whose new children are in scope. */
	u64 parents[GROUPS + PROBES];
	/* How many cgroups were created, and for how many there was no room. */
	u64 made;
	u64 full;
};

MEMORY(groups, struct groups);

/* The slot where the search for an id in a table begins. */
static inline u64 *place_of_group(u64 *table, u64 id)
{
	u64 place = (u32)(id * MIX) >> (32 - GROUPS_BITS);
	u64 *first;

	/* For a verifier that cannot derive this. */
	as_made(place);
	first = &table[place & (GROUPS - 1)];
	as_made(first);
	return first;
}

static inline bool has_group(u64 *table, u64 id)
{
	u64 *place = place_of_group(table, id);

#pragma unroll
	for (int probe = 0; probe < PROBES; probe++) {
		u64 found = place[probe];

		if (found == id)
			return true;
		if (found == 0)
			return false;
	}
	return false;
}

enum scope {
	ALL,
	THREADS,
	CGROUPS,
	/* The threads of a user (owner.h), which may be combined with another condition. */
	OWNED,
};

CHOICE(scope_is, ALL);

MEMORY(threads, u64);

static inline bool is_in_scope(struct task_struct *task)
{
	struct groups *of_groups = memory(&groups);

	if (chosen(owned) && !is_of_owner(task))
		return false;
	if (chosen(scope_is) == OWNED)
		return true;
	if (chosen(scope_is) == THREADS)
		return is_member(&threads, task->pid);
	return has_group(of_groups->members, cgroup_of_task(task->group_leader));
}

#endif
