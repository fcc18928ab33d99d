"""Builds a trace with Perfetto's own messages, converts it, and compares what `fxtrec dump` shows with what was put in.

    perfetto_import.py FXTREC FOLDER
"""

import re
import subprocess
import sys
import zlib
from pathlib import Path

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

FXTREC, FOLDER = sys.argv[1], Path(sys.argv[2])

SECOND = 1_000_000_000


def build(compact):
    """Two CPUs, a thread that is woken by another and by an interrupt, spans with a flow, a counter and a stack."""
    trace = pb.Trace()

    def packet(**fields):
        return trace.packet.add(trusted_packet_sequence_id=7, **fields)

    snapshot = packet().clock_snapshot
    for clock, time in ((6, 10 * SECOND), (3, 8 * SECOND), (1, 1_700_000_000 * SECOND)):
        snapshot.clocks.add(clock_id=clock, timestamp=time)
    packet().system_info.utsname.release = "6.12.0"
    tree = packet().process_tree
    tree.processes.add(pid=500, ppid=1, cmdline=["/usr/bin/shop", "--fast"])
    for tid, name in ((500, "shop"), (501, "worker")):
        tree.threads.add(tid=tid, tgid=500, name=name)
    at = lambda us: 10 * SECOND + us * 1000
    switches = [
        (0, 100, 0, "swapper/0", 0, 501, "worker"),
        (0, 300, 501, "worker", 2, 600, "hog"),
        (0, 700, 600, "hog", 0x100, 501, "worker"),
        (0, 900, 501, "worker", 1, 0, "swapper/0"),
        (0, 950, 0, "swapper/0", 0, 501, "worker"),
        (1, 200, 0, "swapper/1", 0, 500, "shop"),
        (1, 800, 500, "shop", 1, 0, "swapper/1"),
    ]
    wakes = [(1, 500, 500, 0, 501, 0), (0, 940, 0, 0x08, 501, 0)]
    for cpu in (1, 0):
        bundle = packet().ftrace_events
        bundle.cpu = cpu
        if compact:
            names = bundle.compact_sched
            names.intern_table.extend(["worker", "hog", "shop", "swapper"])
            last = 0
            for _, us, _, _, state, next_pid, comm in (s for s in switches if s[0] == cpu):
                names.switch_timestamp.append(at(us) - last)
                last = at(us)
                names.switch_prev_state.append(state)
                names.switch_next_pid.append(next_pid)
                names.switch_next_prio.append(120)
                names.switch_next_comm_index.append(["worker", "hog", "shop", "swapper"].index(comm.split("/")[0]))
            last = 0
            for _, us, _, flags, pid, target in (w for w in wakes if w[0] == cpu):
                names.waking_timestamp.append(at(us) - last)
                last = at(us)
                names.waking_pid.append(pid)
                names.waking_target_cpu.append(target)
                names.waking_prio.append(120)
                names.waking_comm_index.append(0)
                names.waking_common_flags.append(flags)
            continue
        for _, us, prev, prev_comm, state, next_pid, comm in (s for s in switches if s[0] == cpu):
            event = bundle.event.add(timestamp=at(us), pid=prev, common_flags=1)
            switch = event.sched_switch
            switch.prev_comm, switch.prev_pid, switch.prev_prio, switch.prev_state = prev_comm, prev, 120, state
            switch.next_comm, switch.next_pid, switch.next_prio = comm, next_pid, 120
        for _, us, current, flags, pid, target in (w for w in wakes if w[0] == cpu):
            waking = bundle.event.add(timestamp=at(us), pid=current, common_flags=flags).sched_waking
            waking.comm, waking.pid, waking.prio, waking.target_cpu = "worker", pid, 120, target
    first = packet(sequence_flags=1)
    first.track_descriptor.uuid = 1
    first.track_descriptor.thread.pid, first.track_descriptor.thread.tid = 500, 501
    data = first.interned_data
    data.event_names.add(iid=1, name="order")
    data.function_names.add(iid=1, str=b"main")
    data.function_names.add(iid=2, str=b"lookup")
    data.mapping_paths.add(iid=1, str=b"shop")
    data.mappings.add(iid=1, path_string_ids=[1])
    data.frames.add(iid=1, function_name_id=1, mapping_id=1, rel_pc=0x10)
    data.frames.add(iid=2, function_name_id=2, mapping_id=1, rel_pc=0x20)
    data.callstacks.add(iid=1, frame_ids=[1, 2])
    counter = packet().track_descriptor
    counter.uuid, counter.name = 2, "queue"
    counter.counter.SetInParent()
    for us, kind in ((120, pb.TrackEvent.TYPE_SLICE_BEGIN), (890, pb.TrackEvent.TYPE_SLICE_END)):
        event = packet(timestamp=at(us), sequence_flags=2).track_event
        event.type, event.track_uuid = kind, 1
        if kind == pb.TrackEvent.TYPE_SLICE_BEGIN:
            event.name_iid = 1
            event.categories.append("app")
            event.flow_ids.append(77)
            annotation = event.debug_annotations.add(name="items")
            annotation.int_value = 3
    event = packet(timestamp=at(400)).track_event
    event.type, event.track_uuid, event.counter_value = pb.TrackEvent.TYPE_COUNTER, 2, 12
    sample = packet(timestamp=at(150), sequence_flags=2).perf_sample
    sample.pid, sample.tid, sample.callstack_iid = 500, 501, 1
    return trace


def build_rest():
    """A CPU with the other events of ftrace, events lost, and operations and a thread's samples; half of it is compressed."""
    trace = pb.Trace()

    def packet(**fields):
        return trace.packet.add(trusted_packet_sequence_id=7, **fields)

    stats = [packet().ftrace_stats, packet().ftrace_stats]
    for phase, (it, overrun) in enumerate(zip(stats, (0, 9)), 1):
        it.phase = phase
        it.cpu_stats.add(cpu=0, overrun=overrun)
    first = packet(first_packet_on_sequence=True, sequence_flags=1)
    first.interned_data.kernel_symbols.add(iid=7, str=b"folio_wait_bit_common")
    bundle = first.ftrace_events
    bundle.cpu = 0
    event = lambda us, pid: bundle.event.add(timestamp=us * 1000, pid=pid)

    def switch(us, prev, state, next_):
        it = event(us, prev).sched_switch
        it.prev_pid, it.prev_comm, it.prev_prio, it.prev_state = prev, f"t{prev}", 120, state
        it.next_pid, it.next_comm, it.next_prio = next_, f"t{next_}", 120

    switch(100, 0, 0, 501)
    new = event(110, 501).task_newtask
    new.pid, new.comm, new.clone_flags = 502, "child", 0x10000
    renamed = event(115, 502).task_rename
    renamed.pid, renamed.oldcomm, renamed.newcomm = 502, "child", "helper"
    event(120, 501).print.buf = "B|500|draw\n"
    event(130, 501).print.buf = "C|500|queued|4\n"
    event(140, 501).print.buf = "E|500\n"
    event(150, 501).sys_enter.id = 0
    switch(200, 501, 2, 502)
    irq, done = event(210, 502).irq_handler_entry, event(220, 502).irq_handler_exit
    irq.irq, irq.name, done.irq, done.ret = 30, "virtio0", 30, 1
    event(230, 502).softirq_entry.vec = 3
    reason = event(232, 502).sched_blocked_reason
    reason.pid, reason.caller, reason.io_wait = 501, 7, 1
    woken = event(235, 502).sched_wakeup
    woken.pid, woken.comm, woken.prio, woken.success, woken.target_cpu = 501, "t501", 120, 1, 0
    event(240, 502).softirq_exit.vec = 3
    moved = event(250, 502).sched_migrate_task
    moved.pid, moved.orig_cpu, moved.dest_cpu = 501, 1, 0
    switch(300, 502, 1, 501)
    event(310, 501).sys_exit.id = 0
    frequency, idle = event(320, 501).cpu_frequency, event(330, 501).cpu_idle
    frequency.state, frequency.cpu_id, idle.state, idle.cpu_id = 2_000_000, 0, 1, 0
    gone = event(340, 501).sched_process_exit
    gone.pid, gone.tgid, gone.comm = 502, 500, "helper"
    lossy = packet().ftrace_events
    lossy.cpu, lossy.lost_events = 0, True
    bundle = lossy
    switch(500, 501, 1, 0)

    inner = pb.Trace()
    inside = lambda **fields: inner.packet.add(trusted_packet_sequence_id=8, **fields)
    data = inside(sequence_flags=1).interned_data
    data.function_names.add(iid=1, str=b"main")
    data.frames.add(iid=1, function_name_id=1)
    data.callstacks.add(iid=1, frame_ids=[1])
    process = inside().track_descriptor
    process.uuid, process.process.pid, process.process.process_name = 10, 500, "shop"
    track = inside().track_descriptor
    track.uuid, track.parent_uuid, track.name = 11, 10, "requests"
    for us, kind in ((350, pb.TrackEvent.TYPE_SLICE_BEGIN), (360, pb.TrackEvent.TYPE_SLICE_END)):
        operation = inside(timestamp=us * 1000).track_event
        operation.type, operation.track_uuid, operation.name = kind, 11, "GET /"
    sample = inside(timestamp=370_000, sequence_flags=2).perf_sample
    sample.pid, sample.tid, sample.callstack_iid = 500, 501, 1
    packed = zlib.compress(inner.SerializeToString())
    packet().compressed_packets = packed
    return trace


EXPECTED = [
    r'8\.000300000 .*context_switch .*out=501:worker .*in=600:hog .*prev_state="D"',
    r'8\.000500000 .*wakeup .*thread=501:worker .*waker=koid:500:shop',
    r'8\.000700000 .*context_switch .*out=600:hog .*in=501:worker .*prev_state="R\+"',
    r"8\.000940000 .*wakeup .*thread=501:worker .*interrupt=true",
    r'8\.000120000 .*duration_begin .*"app" "order" .*items=3',
    r'8\.000120000 .*flow_begin .*id=0x4d|8\.000120000 .*flow_begin .*77',
    r'8\.000400000 .*counter .*"queue" .*value=12',
    r'8\.000890000 .*duration_end .*"app" "order"',
    r"8\.000150000 .*backtrace .*",
    r'userspace_object .*"lookup"',
    r'kernel_object .*process .*"shop"',
]

EXPECTED_OF_REST = [
    r'0\.000120000 .*duration_begin .*"atrace" "draw"',
    r'0\.000130000 .*counter .*"queued" .*value=4',
    r'0\.000200000 .*context_switch .*out=501:.* .*prev_state="D" .*syscall=0',
    r'0\.000210000 .*duration_begin .*"irq" "virtio0"',
    r'0\.000230000 .*duration_begin .*"irq" "net_rx"',
    r"0\.000235000 .*wakeup .*thread=501:",
    r'0\.000250000 .*instant .*"migrate" .*orig_cpu=1 dest_cpu=0',
    r"0\.000300000 .*context_switch .*out=502:helper .*irq_ns=20000 irqs=2",
    r'userspace_object .*"folio_wait_bit_common"',
    r"0\.000320000 .*counter .*khz=2000000",
    r'0\.000330000 .*counter .*"cpu_idle" .*state=1',
    r'0\.000350000 .*async_begin .*"GET /"',
    r"0\.000370000 .*backtrace .*",
    r'0\.000500000 .*"lost" .*count=9 .*at_most=true',
]


def main():
    for name, trace, expected in (
        ("plain", build(False), EXPECTED),
        ("compact", build(True), EXPECTED),
        ("rest", build_rest(), EXPECTED_OF_REST),
    ):
        path = FOLDER / f"{name}.pftrace"
        path.write_bytes(trace.SerializeToString())
        converted = path.with_suffix(".fxt")
        subprocess.run([FXTREC, "convert", "-q", path, converted], check=True)
        dump = subprocess.run([FXTREC, "dump", converted], check=True, capture_output=True, text=True).stdout
        missing = [line for line in expected if not re.search(line, dump)]
        if missing:
            sys.exit(f"scripts/check-perfetto: {path.name}: not in the dump: {missing}\n{dump}")
        subprocess.run([FXTREC, "dump", "--check", converted], check=True, stdout=subprocess.DEVNULL)
        direct = subprocess.run([FXTREC, "report", path], check=True, capture_output=True, text=True).stdout
        if "worker" not in direct and "helper" not in direct:
            sys.exit(f"scripts/check-perfetto: {path.name}: the report has no thread:\n{direct}")
        print(f"  {path.name}: {len(expected)} facts found as they were put in")


main()
