// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * Who is in scope: the programs on the beginning of a thread's life, and on that of a cgroup's. Since Linux 5.12: they change words by
 * atomic operations, and look at what was there.
 */
#include "lane.h"
#include "scope.h"

LICENSE;

/*
 * task_newtask(child, flags): the child of a thread in scope is in scope, and no other is. Its parent runs.
 *
 * This says all about the child's id: what an earlier owner left there is overwritten, and nothing that comes later belongs to an
 * earlier owner. The kernel lets go of a task long after it gave the id to another, so that sched_process_free would take the bit
 * away from that other.
 */
SEC("tp_btf") int fxtrec_newtask(u64 *args)
{
	struct task_struct *child = (void *)args[0];
	u32 tid = child->pid, maker = bpf_get_current_task_btf()->pid;
	u64 *word = word_of(&threads, tid), *of_maker = word_of(&threads, maker);
	u64 bit = 1ull << (tid & 63);

	if (!is_set(of_maker, maker)) {
		__sync_fetch_and_and(word, ~bit);
		/* fxtrec may have put both in scope since the first look, and have found the child's bit set. */
		if (!is_set(of_maker, maker))
			return 0;
	}
	__sync_fetch_and_or(word, bit);
	return 0;
}

/* Of which hierarchy the cgroups are that are meant. */
CHOICE(hierarchy, 0);

static inline void put(struct groups *all, u64 *table, u64 id)
{
	u64 *place = place_of_group(table, id);

#pragma unroll
	for (int probe = 0; probe < PROBES; probe++)
		if (__sync_val_compare_and_swap(&place[probe], 0, id) == 0)
			return;
	__sync_fetch_and_add(&all->full, 1);
}

/*
 * cgroup_mkdir(cgroup, path), before anybody sees it: where its parent says so it is in
 * scope, and so are its children. For others the bell is rung.
 */
SEC("tp_btf") int fxtrec_mkdir(u64 *args)
{
	struct cgroup *made = (void *)args[0];
	struct groups *all = memory(&groups);

	if ((u32)made->root->hierarchy_id != chosen(hierarchy))
		return 0;
	if (!has_group(all->parents, made->self.parent->cgroup->kn->id)) {
		__sync_fetch_and_add(&all->made, 1);
		ring(&doorbell, &all->made);
		return 0;
	}
	u64 id = made->kn->id;
	put(all, all->parents, id);
	put(all, all->members, id);
	return 0;
}
