/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * What a thread waited for: the file, pipe or socket behind the descriptor that its system call has as the first argument, as the table
 * of descriptors has it at the end of the wait. All of it is read from the kernel's memory, which may change meanwhile: each read is bounded,
 * and what cannot be read is left out.
 */
#ifndef FXTREC_DESCRIPTORS_H
#define FXTREC_DESCRIPTORS_H

#include "sample.h"

/* The bits of a mode that say what kind of file it is. */
#define S_IFMT 0xf000
#define S_IFSOCK 0xc000

#define AF_INET 2
#define AF_INET6 10

/* Numbers of system calls are below. */
#define CALLS 1024

/* A bit for the number of each system call that has a descriptor as its first argument. */
MEMORY(descriptor_calls, u64);

/* The address of a field of a structure that no type leads to. */
#define place_of(address, structure, field) ((void *)((address) + offset_of(structure, field)))

static inline u64 read_word(const void *address)
{
	u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), address);
	return word;
}

static inline u16 read_half(const void *address)
{
	u16 half = 0;

	bpf_probe_read_kernel(&half, sizeof(half), address);
	return half;
}

/* The descriptor that the thread's system call is about; false if there is none. */
static inline bool find_descriptor(struct task_struct *task, u32 *descriptor)
{
	u64 number, first, *calls = memory(&descriptor_calls);
	struct pt_regs *registers = bpf_task_pt_regs(task);

	if (task->flags & (PF_KTHREAD | PF_USER_WORKER | PF_IO_WORKER))
		return false;
#if defined(__TARGET_ARCH_x86)
	if (task->thread_info.status & TS_COMPAT)
		return false;
	number = registers->orig_ax;
	first = registers->di;
#elif defined(__TARGET_ARCH_arm64)
	if (task->thread_info.flags >> TIF_32BIT & 1)
		return false;
	number = (u32)registers->syscallno;
	first = ((struct pt_regs___first *)registers)->orig_x0;
#else
	return false;
#endif
	if (number >= CALLS || !(calls[number / 64] >> (number & 63) & 1))
		return false;
	*descriptor = first;
	return true;
}

static inline void describe_socket(struct described *to, u64 socket)
{
	u64 sock = read_word(place_of(socket, struct socket, sk));

	if (!sock)
		return;
	to->family = read_half(place_of(sock, struct sock, __sk_common.skc_family));
	to->protocol = read_half(place_of(sock, struct sock, sk_protocol));
	if (to->family == AF_INET || to->family == AF_INET6) {
		to->local_port = read_half(place_of(sock, struct sock, __sk_common.skc_num));
		to->remote_port = read_half(place_of(sock, struct sock, __sk_common.skc_dport));
	}
	if (to->family == AF_INET) {
		bpf_probe_read_kernel(to->local, 4, place_of(sock, struct sock, __sk_common.skc_rcv_saddr));
		bpf_probe_read_kernel(to->remote, 4, place_of(sock, struct sock, __sk_common.skc_daddr));
	} else if (to->family == AF_INET6 && exists(((struct sock *)0)->__sk_common.skc_v6_daddr)) {
		bpf_probe_read_kernel(to->local, 16, place_of(sock, struct sock, __sk_common.skc_v6_rcv_saddr));
		bpf_probe_read_kernel(to->remote, 16, place_of(sock, struct sock, __sk_common.skc_v6_daddr));
	} else {
		u64 peer = read_word(place_of(sock, struct sock, sk_peer_pid));

		if (peer)
			bpf_probe_read_kernel(&to->peer, 4, place_of(peer, struct pid, numbers));
	}
}

/* The name of the file and of the directory that it is in, and the device. */
static inline void describe_name(struct described *to, u64 file, u64 inode)
{
	u64 dentry = read_word(place_of(file, struct file, f_path.dentry));
	u64 parent = read_word(place_of(dentry, struct dentry, d_parent));
	u64 super = read_word(place_of(inode, struct inode, i_sb));

	bpf_probe_read_kernel_str(to->name, NAME_BYTES, (void *)read_word(place_of(dentry, struct dentry, d_name.name)));
	if (parent && parent != dentry)
		bpf_probe_read_kernel_str(to->parent, NAME_BYTES, (void *)read_word(place_of(parent, struct dentry, d_name.name)));
	bpf_probe_read_kernel_str(to->device, DEVICE_BYTES, place_of(super, struct super_block, s_id));
}

/* Describes what the thread, which runs, has waited for. */
static inline void describe(struct described *to, struct task_struct *task)
{
	struct files_struct *files = ((struct task_struct___files *)task)->files;
	u32 descriptor;

	if (!files || !find_descriptor(task, &descriptor))
		return;
	struct fdtable *table = files->fdt;
	if (descriptor >= table->max_fds)
		return;
	u64 file = read_word((void *)((u64)table->fd + (u64)descriptor * sizeof(void *)));
	if (!file)
		return;
	u64 inode = read_word(place_of(file, struct file, f_inode));
	u32 kind = read_half(place_of(inode, struct inode, i_mode)) & S_IFMT;

	to->descriptor = descriptor;
	to->family = to->protocol = to->local_port = to->remote_port = 0;
	to->peer = 0;
	*(u64 *)to->local = *(u64 *)(to->local + 8) = 0;
	*(u64 *)to->remote = *(u64 *)(to->remote + 8) = 0;
	to->device[0] = to->name[0] = to->parent[0] = 0;
	if (kind == S_IFSOCK)
		describe_socket(to, read_word(place_of(file, struct file, private_data)));
	else
		describe_name(to, file, inode);
	/* Some have no kind of their own. */
	to->kind = kind | IS_KNOWN;
}

#endif
