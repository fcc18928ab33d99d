// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * The scope: the programs on the creation of threads and of cgroups. Since Linux 5.12: they change words by atomic operations, and read the
 * old value.
 */
#include "lane.h"
#include "scope.h"

LICENSE;

/*
 * task_newtask(child, flags): the child of a thread in scope is in scope; no other child is. Its parent is running.
 *
 * This fully determines the state of the child's id: the state of an earlier owner is overwritten, and no later event belongs to an earlier
 * owner. The kernel frees a task long after its id was reused, so sched_process_free would clear the bit of the new owner.
 */
SEC("tp_btf") int fxtrec_newtask(u64 *args)
{
	struct task_struct *child = (void *)args[0];
	u32 tid = child->pid, maker = bpf_get_current_task_btf()->pid;
	u64 *word = word_of(&threads, tid), *of_maker = word_of(&threads, maker);
	u64 bit = 1ull << (tid & 63);

	if (!is_set(of_maker, maker)) {
		__sync_fetch_and_and(word, ~bit);
		/* fxtrec may have put both in scope since the first read, and have found the child's bit set. */
		if (!is_set(of_maker, maker))
			return 0;
	}
	__sync_fetch_and_or(word, bit);
	return 0;
}

/* The hierarchy of the selected cgroups. */
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
 * cgroup_mkdir(cgroup, path), before the cgroup is visible: if it matches according to its parent, it is in scope, and so are its children.
 * For other cgroups, the doorbell is rung.
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
