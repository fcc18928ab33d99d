// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * The disk request that a CPU completes, the thread that submitted it, and when the disk got it. requests.rs describes the rules.
 */
#include "hash.h"
#include "origins.h"
#include "wakers.h"
#include "whose.h"

LICENSE;

#define REQUEST_BITS 10

/* Whether the kernel reports the beginning of a request, or only when it is queued. */
CHOICE(knows_begins, 0);

/* The operation: the lower byte of the flags. A request without data belongs to the flush that comes with it. */
#define REQ_OP_MASK 0xff
#define REQ_OP_FLUSH 2
#define REQ_FUA (1 << 17)
#define REQ_PREFLUSH (1 << 18)

/* In place of an operation: a flush, followed by a write. */
#define FLUSH_AND_WRITE 0x100

/* A request by its address, which is reused. Several requests may share a slot; the last one owns it. */
struct request_note {
	u64 whose;
	u64 started;
	u64 issued;
	/* When it began by the kernel's clock, if no tracepoint reports it. */
	u32 kernel_time;
	u32 bytes;
	u32 flags;
	u32 is_done;
};

MEMORY(requests, struct request_note);

static inline struct request_note *note_of(u64 address)
{
	struct request_note *places = memory(&requests);
	u32 place = (u32)(address >> ALIGNED_BITS) * MIX >> (32 - REQUEST_BITS);

	return &places[place];
}

static inline bool is_about(struct request_note *note, u64 address, struct request *request)
{
	if (!is_of(note->whose, address))
		return false;
	/* A request that is merged into another ends without an event, and its memory is reused. */
	return chosen(knows_begins) || (request->start_time_ns && note->kernel_time == (u32)request->start_time_ns);
}

static inline void begin_note(struct request_note *note, u64 address, struct request *request, u32 issuer, u64 issued)
{
	u64 now = bpf_ktime_get_ns();

	*(volatile u64 *)&note->whose = 0;
	barrier();
	note->started = now;
	note->issued = issued ? now : 0;
	note->kernel_time = request->start_time_ns;
	note->bytes = request->__data_len;
	note->flags = request->cmd_flags;
	note->is_done = 0;
	barrier();
	*(volatile u64 *)&note->whose = whose(address, issuer);
}

/* block_io_start(request), since Linux 6.5 */
SEC("tp_btf") int fxtrec_io_start(u64 *args)
{
	struct request *request = (void *)args[0];
	u64 address = number_of(request);
	u32 in_interrupt, issuer = current_or_interrupt(&in_interrupt);

	begin_note(note_of(address), address, request, in_interrupt ? 0 : issuer, 0);
	return 0;
}

static inline struct request *request_in(u64 *args)
{
	return (void *)(is_defined(btf_trace_block_rq_issue) ? args[0] : args[1]);
}

/*
 * block_rq_insert(request), on older kernels: the thread that queues a request submitted it. But a worker may queue it again for another
 * thread, and only the kernel's own time of the request shows whether it is still the same.
 */
SEC("tp_btf") int fxtrec_insert(u64 *args)
{
	struct request *request = request_in(args);
	u64 address = number_of(request);
	struct request_note *note = note_of(address);
	u32 in_interrupt, issuer = current_or_interrupt(&in_interrupt);

	if (is_about(note, address, request) && !note->is_done)
		return 0;
	if (in_interrupt || !request->start_time_ns || current_flags() & PF_WQ_WORKER)
		issuer = 0;
	begin_note(note, address, request, issuer, 0);
	return 0;
}

/* block_rq_issue(request): the driver receives it. */
SEC("tp_btf") int fxtrec_issue(u64 *args)
{
	struct request *request = request_in(args);
	u64 address = number_of(request);
	struct request_note *note = note_of(address);

	if (is_about(note, address, request) && !note->is_done) {
		note->issued = bpf_ktime_get_ns();
		note->bytes = request->__data_len;
	} else {
		begin_note(note, address, request, 0, 1);
	}
	return 0;
}

/* The running interrupt, if it is one that may complete requests and that wakes threads for no other reason. */
static inline struct completed *completed_in(struct origins *own)
{
	if (own->hard)
		return &own->by_hard;
	u64 soft = own->soft;
	if (soft == ORIGIN(SOFTIRQ, 4) || soft == ORIGIN(SOFTIRQ, 5) || (u8)soft == TIMER || (u8)soft == HRTIMER)
		return &own->by_soft;
	return NULL;
}

/* block_rq_complete(request, error, bytes) */
SEC("tp_btf") int fxtrec_complete(u64 *args)
{
	struct request *request = (void *)args[0];
	struct completed *completed = completed_in(origins_of(bpf_get_smp_processor_id()));

	if (!completed)
		return 0;
	u64 address = number_of(request), disk;
	struct request_note *note = note_of(address);
	u64 known = note->whose, started = 0, issued = 0;
	u32 flags = request->cmd_flags, bytes = request->__data_len, issuer = 0, operation = flags & REQ_OP_MASK;

	if (exists(((struct request___5_16 *)request)->rq_disk))
		disk = number_of(((struct request___5_16 *)request)->rq_disk);
	else
		disk = number_of(request->q->disk);
	/* The kernel reports the end of a request with a flush more than once. */
	if (is_about(note, address, request) && (!note->is_done || note->flags & (REQ_FUA | REQ_PREFLUSH))) {
		started = note->started;
		issued = note->issued;
		bytes = note->bytes;
		flags = note->flags;
		barrier();
		/* A request of another CPU may take the slot at any time. */
		if (*(volatile u64 *)&note->whose == known) {
			issuer = sender_of(known);
			note->is_done = (u32)args[2] >= request->__data_len;
			if (flags & REQ_PREFLUSH) {
				/* A request without data never reaches the disk: another request flushes for it, and has just ended. */
				bool is_flush = completed->operation == REQ_OP_FLUSH + 1 && completed->disk == disk;

				operation = bytes ? FLUSH_AND_WRITE : REQ_OP_FLUSH;
				issued = !bytes && is_flush ? completed->issued : 0;
			}
		} else {
			started = 0;
			issued = 0;
			bytes = request->__data_len;
		}
	}
	completed->started = started;
	completed->issued = issued;
	completed->disk = disk;
	completed->issuer = issuer;
	completed->bytes = bytes;
	completed->operation = operation + 1;
	return 0;
}
