"""Builds traces with Perfetto's own messages, converts them, and compares the whole output of `fxtrec dump` with the input: slices,
wakeups, states, names, stacks, flows, counters, gaps and the trace's description of itself must be the same, and nothing more.

    perfetto_import.py FXTREC FOLDER
"""

import json
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

FXTREC, FOLDER = sys.argv[1], Path(sys.argv[2])

SECOND = 1_000_000_000

# CPU, microsecond, outgoing thread, its name and state, incoming thread, its name.
SWITCHES = [
    (0, 100, 0, "swapper/0", 0, 501, "worker"),
    (0, 300, 501, "worker", 2, 600, "hog"),
    (0, 700, 600, "hog", 0x100, 501, "worker"),
    (0, 900, 501, "worker", 1, 0, "swapper/0"),
    (0, 950, 0, "swapper/0", 0, 501, "worker"),
    (1, 200, 0, "swapper/1", 0, 500, "shop"),
    (1, 800, 500, "shop", 1, 0, "swapper/1"),
]


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
    wakes = [(1, 500, 500, 0, 501, 0), (0, 940, 0, 0x08, 501, 0)]
    for cpu in (1, 0):
        bundle = packet().ftrace_events
        bundle.cpu = cpu
        if compact:
            names = bundle.compact_sched
            names.intern_table.extend(["worker", "hog", "shop", "swapper"])
            last = 0
            for _, us, _, _, state, next_pid, comm in (s for s in SWITCHES if s[0] == cpu):
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
        for _, us, prev, prev_comm, state, next_pid, comm in (s for s in SWITCHES if s[0] == cpu):
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
    """A CPU with the other ftrace events, lost events, and operations and a thread's samples; half of it is compressed."""
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


def build_more():
    """Stack samples of each kind, counters with relative values, flows from thread to thread, and a thread id that is reused."""
    trace = pb.Trace()
    packet = lambda **fields: trace.packet.add(trusted_packet_sequence_id=9, **fields)
    bundle = packet().ftrace_events
    bundle.cpu = 0

    def switch(us, prev, state, next_):
        it = bundle.event.add(timestamp=us * 1000, pid=prev[0]).sched_switch
        (it.prev_pid, it.prev_comm), it.prev_prio, it.prev_state = prev, 120, state
        (it.next_pid, it.next_comm), it.next_prio = next_, 120

    def new(us, parent, tid, comm):
        task = bundle.event.add(timestamp=us * 1000, pid=parent).task_newtask
        task.pid, task.comm, task.clone_flags = tid, comm, 0x10000
        woken = bundle.event.add(timestamp=us * 1000, pid=parent, common_flags=1).sched_wakeup_new
        woken.pid, woken.comm, woken.prio, woken.target_cpu = tid, comm, 120, 0

    idle, main_, first, second = (0, "swapper"), (700, "main"), (701, "first"), (701, "second")
    switch(100, idle, 0, main_)
    new(110, 700, *first)
    switch(120, main_, 1, first)
    switch(130, first, 16, idle)
    switch(140, idle, 0, main_)
    new(150, 700, *second)
    # Reported when the kernel frees the first thread, after its id was reused.
    free = bundle.event.add(timestamp=155_000, pid=700).sched_process_free
    free.pid, free.comm, free.prio = 701, "first", 120
    switch(160, main_, 1, second)
    switch(170, second, 1, idle)

    descriptor = packet(sequence_flags=1).track_descriptor
    descriptor.uuid, descriptor.thread.pid, descriptor.thread.tid = 1, 700, 700
    descriptor = packet().track_descriptor
    descriptor.uuid, descriptor.thread.pid, descriptor.thread.tid = 2, 700, 701
    descriptor = packet().track_descriptor
    descriptor.uuid, descriptor.process.pid, descriptor.process.process_name = 3, 700, "shop"
    for uuid, name, factor in ((4, "sent", 1000), (5, "open", 1)):
        descriptor = packet().track_descriptor
        descriptor.uuid, descriptor.parent_uuid, descriptor.name = uuid, 3, name
        descriptor.counter.unit_multiplier, descriptor.counter.is_incremental = factor, True

    def event(us, track, kind, **fields):
        packet(timestamp=us * 1000).track_event.MergeFrom(pb.TrackEvent(type=kind, track_uuid=track, **fields))

    for us, track, change in ((101, 4, 5), (102, 5, 3), (103, 4, 2), (104, 5, -1)):
        event(us, track, pb.TrackEvent.TYPE_COUNTER, counter_value=change)
    event(105, 1, pb.TrackEvent.TYPE_SLICE_BEGIN, name="ask", categories=["net"], flow_ids=[9])
    event(106, 1, pb.TrackEvent.TYPE_SLICE_END)
    event(121, 2, pb.TrackEvent.TYPE_SLICE_BEGIN, name="answer", categories=["net"], flow_ids=[9])
    event(122, 2, pb.TrackEvent.TYPE_SLICE_END)
    event(141, 1, pb.TrackEvent.TYPE_INSTANT, name="got", categories=["net"], terminating_flow_ids=[9])

    # Each writer of samples specifies their kind. A sample without a kind is a sample of a CPU.
    samples = (("fxtrec.offcpu", 120, 700, 20_000), ("fxtrec.wake", 155, 701, 0), ("", 165, 701, 1))
    for sequence, (source, us, tid, weight) in enumerate(samples, 20):
        begin = trace.packet.add(trusted_packet_sequence_id=sequence, sequence_flags=1)
        if source:
            begin.trace_packet_defaults.stack_sample_defaults.source = source
        data = begin.interned_data
        data.function_names.add(iid=1, str=b"main")
        data.function_names.add(iid=2, str=f"leaf{sequence}".encode())
        data.mapping_paths.add(iid=1, str=b"usr")
        data.mapping_paths.add(iid=2, str=b"shop")
        data.mappings.add(iid=1, path_string_ids=[1, 2])
        data.frames.add(iid=1, function_name_id=1, mapping_id=1, rel_pc=0x10)
        data.frames.add(iid=2, function_name_id=2, mapping_id=1, rel_pc=0x20)
        data.callstacks.add(iid=5, frame_ids=[1, 2])
        data.stack_sample_task_contexts.add(iid=6, pid=700, tid=tid)
        it = trace.packet.add(trusted_packet_sequence_id=sequence, sequence_flags=2, timestamp=us * 1000).stack_sample
        it.callstack_iid, it.primary_weight = 5, weight
        if sequence == 20:
            it.task_context.pid, it.task_context.tid = 700, tid
        else:
            it.task_context_iid = 6
        if sequence == 22:
            it.unwind_error = "no frame pointer"
    return trace


def facts(path):
    """The whole content of a trace, one line per fact. Times are in microseconds."""
    dump = subprocess.run([FXTREC, "dump", "--json", path], check=True, capture_output=True, text=True).stdout
    records = [json.loads(line) for line in dump.splitlines()]
    found, functions, files, names = [], {}, {}, {}
    for it in records:
        kind = it.get("type")
        args = {arg["name"]: arg["value"] for arg in it.get("args", [])}
        if kind == "userspace_object":
            file = files.get((it["process"]["koid"], args.get("module")))
            functions[it["process"]["koid"], it["pointer"]] = it["name"] + (f" ({file})" if file else "")
        elif kind == "module":
            files[it["process"]["koid"], it["id"]] = it["name"]
        elif kind == "kernel_object":
            home = f" of {args['process']['koid']}" if it["object_type"] == "thread" else ""
            names[it["object_type"], it["koid"]] = f"{it['object_type']} {it['koid']} {it['name']}{home}"
    found += names.values()
    for it in records:
        kind, time = it.get("type"), it.get("time_ns", 0) // 1000
        args = {arg["name"]: arg["value"] for arg in it.get("args", [])}
        if kind == "context_switch":
            state = args.pop("prev_state", {"running": "R", "blocked": "S", "exited": "Z", "dead": "X"}.get(it["outgoing_state"]))
            sides = "".join(f" {args.pop(f'{side}_weight')}" for side in ("outgoing", "incoming")).replace("-2147483648", "idle")
            line = f"{time} cpu {it['cpu']}: {it['outgoing']['koid']} {state} -> {it['incoming']['koid']}, weights{sides}"
        elif kind == "wakeup":
            by = args.pop("waker")["koid"] if "waker" in args else "an interrupt" if args.pop("interrupt", False) else "?"
            args.pop("weight")
            line = f"{time} cpu {it['cpu']}: {it['thread']['koid']} woken by {by}"
        elif kind == "backtrace":
            home, kernel = it["process"]["koid"], 0
            frames = [functions.get((home, frame)) or functions.get((kernel, frame), "?") for frame in it["frames"]]
            line = f"{time} stack {it['flags']:#x} of {it['thread']['koid']}: {', '.join(frames)}"
        elif it.get("name") == "trace_info":
            line, args = "info", {name: args[name] for name in ("clock", "causes", "wall_clock_offset_ns") if name in args}
        elif "category" in it and it.get("name") != "trace_stats":
            number = f" {it['id']}" if "id" in it else ""
            line = f"{time} {kind}{number} {it['category']}:{it['name']} of {it['thread']['koid']}"
        else:
            continue
        found.append(line + "".join(f" {name}={value}" for name, value in sorted(args.items())))
    return sorted(found)


def expected(compact):
    """The input of `build`."""
    found = [
        "info causes=waker clock=monotonic wall_clock_offset_ns=1699999992000000000",
        "process 0 swapper",
        "process 500 shop",
        "process 600 hog",
        "thread 0 swapper of 0",
        "thread 500 shop of 500",
        "thread 501 worker of 500",
        "thread 600 hog of 600",
        "8000100 instant fxtrec:stack_info of 4294967295 kind=cpu over_ns=0",
        "8000120 duration_begin app:order of 501 items=3",
        "8000120 flow_begin 77 app:flow of 501",
        "8000150 stack 0x200 of 501: lookup (shop), main (shop)",
        "8000400 counter 0 :queue of 0 value=12",
        "8000500 cpu 0: 501 woken by 500",
        "8000890 duration_end app:order of 501",
        "8000940 cpu 0: 501 woken by an interrupt",
    ]
    letters = {0: "R", 1: "S", 2: "D", 0x100: "R+"}
    seen = set()
    for cpu, us, prev, _, state, next_, _ in SWITCHES:
        # In a compact bundle, the first switch of a CPU contains only the incoming thread.
        if compact and cpu not in seen:
            seen.add(cpu)
            continue
        weights = " ".join("1024" if tid else "idle" for tid in (prev, next_))
        found.append(f"{8_000_000 + us} cpu {cpu}: {prev} {letters[state]} -> {next_}, weights {weights}")
    return found


EXPECTED_OF_REST = [
    "info causes=irq,migrate,syscall clock=boot",
    "process 0 swapper",
    "process 500 shop",
    "process 3221225472 interrupts",
    "thread 0 swapper of 0",
    "thread 500 shop of 500",
    "thread 501 t501 of 500",
    "thread 502 helper of 500",
    "thread 3221225473 CPU 0 of 3221225472",
    "100 instant fxtrec:stack_info of 4294967295 kind=offcpu,cpu over_ns=0",
    "100 cpu 0: 0 R -> 501, weights idle 1024",
    "120 duration_begin atrace:draw of 501",
    "130 counter 0 atrace:queued of 500 value=4",
    "140 duration_end atrace:draw of 501",
    "200 cpu 0: 501 D -> 502, weights 1024 1024 syscall=0",
    "200 stack 0x0 of 501: folio_wait_bit_common",
    "210 duration_begin irq:virtio0 of 3221225473",
    "220 duration_end irq:virtio0 of 3221225473",
    "230 duration_begin irq:net_rx of 3221225473",
    "235 cpu 0: 501 woken by ?",
    "240 duration_end irq:net_rx of 3221225473",
    "250 instant sched:migrate of 501 dest_cpu=0 orig_cpu=1",
    "300 cpu 0: 502 S -> 501, weights 1024 1024 irq_ns=20000 irqs=2",
    "320 counter 0 power:cpu_frequency of 0 khz=2000000",
    "330 counter 0 power:cpu_idle of 0 state=1",
    "350 async_begin 11 :GET / of 500",
    "360 async_end 11 :GET / of 500",
    "370 stack 0x200 of 501: main",
    "500 instant fxtrec:lost of 4294967295 at_most=True count=9 cpu=0",
    "500 cpu 0: 501 S -> 0, weights 1024 idle",
]

# The second thread with the id 701.
REUSED = 701 + (1 << 22)

EXPECTED_OF_MORE = [
    "info clock=boot",
    "process 0 swapper",
    "process 700 shop",
    "thread 0 swapper of 0",
    "thread 700 main of 700",
    "thread 701 first of 700",
    f"thread {REUSED} second of 700",
    "100 instant fxtrec:stack_info of 4294967295 kind=offcpu,wake,cpu over_ns=20000",
    "100 cpu 0: 0 R -> 700, weights idle 1024",
    "101 counter 0 :sent of 700 value=5000",
    "102 counter 0 :open of 700 value=3",
    "103 counter 0 :sent of 700 value=7000",
    "104 counter 0 :open of 700 value=2",
    "105 duration_begin net:ask of 700",
    "105 flow_begin 9 net:flow of 700",
    "106 duration_end net:ask of 700",
    "110 cpu 0: 701 woken by 700",
    "120 cpu 0: 700 S -> 701, weights 1024 1024",
    "121 duration_begin net:answer of 701",
    "121 flow_step 9 net:flow of 701",
    "122 duration_end net:answer of 701",
    "130 cpu 0: 701 X -> 0, weights 1024 idle",
    "120 stack 0x0 of 700: leaf20 (usr/shop), main (usr/shop)",
    "140 cpu 0: 0 R -> 700, weights idle 1024",
    "141 instant net:got of 700",
    "141 flow_end 9 net:flow of 700",
    f"150 cpu 0: {REUSED} woken by 700",
    f"155 stack 0x100 of {REUSED}: leaf21 (usr/shop), main (usr/shop)",
    f"160 cpu 0: 700 S -> {REUSED}, weights 1024 1024",
    # The user part of the stack was truncated.
    f"165 stack 0x220 of {REUSED}: leaf22 (usr/shop), main (usr/shop)",
    f"170 cpu 0: {REUSED} S -> 0, weights 1024 idle",
]


def main():
    for name, trace, wanted in (
        ("plain", build(False), expected(False)),
        ("compact", build(True), expected(True)),
        ("rest", build_rest(), EXPECTED_OF_REST),
        ("more", build_more(), EXPECTED_OF_MORE),
    ):
        path = FOLDER / f"{name}.pftrace"
        path.write_bytes(trace.SerializeToString())
        converted = path.with_suffix(".fxt")
        subprocess.run([FXTREC, "convert", "-q", path, converted], check=True)
        found, wanted = Counter(facts(converted)), Counter(wanted)
        if found != wanted:
            lines = [f"- {line}" for line in (wanted - found).elements()] + [f"+ {line}" for line in (found - wanted).elements()]
            sys.exit("\n".join([f"scripts/check-perfetto: {path.name}: put in (-) and found (+) differ:", *lines]))
        subprocess.run([FXTREC, "dump", "--check", converted], check=True, stdout=subprocess.DEVNULL)
        direct, of_converted = (
            subprocess.run([FXTREC, "report", it], check=True, capture_output=True, text=True).stdout for it in (path, converted)
        )
        if direct.replace(str(path), "") != of_converted.replace(str(converted), ""):
            sys.exit(f"scripts/check-perfetto: {path.name}: the report is another than that of the converted trace:\n{direct}")
        print(f"  {path.name}: {len(found)} facts found as they were put in, and no other")


main()
