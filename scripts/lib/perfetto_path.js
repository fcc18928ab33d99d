// Compares the chains of `fxtrec why` with the critical paths that Perfetto's own engine finds for the same intervals.
//
//   node perfetto_path.js FXTREC ENGINE FILE...       ENGINE is the folder of a Perfetto UI
//
// The engine of v52 reads no wakers from FXT: its importer skips the argument. So it gets the switches and wakeups of the file as the
// kernel events that they were derived from, in Perfetto's own format.
//
// The path of an interval is computed here twice, from the same records: by Perfetto's rules, and by those of docs/reference/why.md. The
// engine must agree with the first and `fxtrec why` with the second, thread by thread and to the nanosecond. So all differences between
// them are explained by these rules; they are counted, and anything else is an error.

"use strict";
const { execFileSync } = require("node:child_process");
const path = require("node:path");
const dump = require("./perfetto_dump.js");
const { TraceProcessor, number, bytes, varint } = require("./perfetto_engine.js");

const [fxtrec, engine, ...files] = process.argv.slice(2);

const text = (field, value) => bytes(field, Buffer.from(value));

// Fields of Perfetto's trace messages.
const TRACE = { packet: 1 };
const PACKET = { ftrace: 1, sequence: 10, system: 45 };
const SYSTEM = { utsname: 1, sysname: 1, release: 3 };
const BUNDLE = { cpu: 1, event: 2, compact: 4 };
const EVENT = { at: 1, pid: 2, switched: 4, waking: 20 };
const SWITCH = { comm: 1, pid: 2, prio: 3, state: 4, nextComm: 5, nextPid: 6, nextPrio: 7 };
const WAKING = { comm: 1, pid: 2, prio: 3 };
/* Only in this form, wakeups have the flags that indicate an interrupt. */
const COMPACT = { comms: 5, at: 7, pid: 8, cpu: 9, prio: 10, comm: 11, flags: 12 };
const HARD_INTERRUPT = 8;

/* The kernel's bits of a state, from Linux 4.14 on. */
const BITS = { running: 0, new: 0, blocked: 1, suspended: 4, dead: 16, dying: 32 };
const BITS_OF_BLOCKED = { D: 2, I: 128 };

/* Maximum time in nanoseconds between a waker's last moment on its CPU and the wakeup on this one: `fxtrec why` reports "underway". */
const UNDERWAY = 50_000_000n;
/* The maximum number of threads that are followed in a chain. */
const MOST_DEEP = 48;

/** The switches and wakeups of a file, in order. */
function scheduling(file) {
    const out = [];
    const running = new Map();
    for (const { at, kind, rest } of dump.records(fxtrec, file)) {
        const found = (pattern) => rest.match(pattern)?.[1];
        const thread = (pattern) => found(pattern) && Number(dump.tid(found(pattern)));
        const cpu = Number(found(/^cpu=(\d+) /));
        if (kind === "wakeup") {
            const waker = thread(/ waker=koid:(\d+):/);
            // If no thread is running that could be interrupted, the idle task is the waker, and Perfetto treats that as no waker.
            const isInterrupt = / interrupt=true/.test(rest) && Boolean(running.get(cpu));
            out.push({ at, cpu, wakes: thread(/ thread=(\d+):/), waker, isInterrupt });
        } else if (kind === "context_switch") {
            const state = found(/ (running|new|blocked|suspended|dead|dying) in=/);
            const [blocked, isInferred] = [found(/ prev_state="([^"]*)"/), / inferred=true/.test(rest)];
            out.push({ at, cpu, out: thread(/ out=(\d+):/), state, in: thread(/ in=(\d+):/), blocked, isInferred });
            running.set(cpu, out.at(-1).in);
        }
    }
    return out;
}

/* The same as ftrace events, in Perfetto's format. */
function asFtrace(records) {
    const packet = (...fields) => bytes(TRACE.packet, Buffer.concat([number(PACKET.sequence, 1), ...fields]));
    const utsname = Buffer.concat([text(SYSTEM.sysname, "Linux"), text(SYSTEM.release, "6.1.0")]);
    const packets = [packet(bytes(PACKET.system, bytes(SYSTEM.utsname, utsname)))];
    for (const [index, record] of records.entries()) {
        // Events of one CPU stay in order. A wakeup by a thread may be on any CPU.
        const isFree = record.wakes !== undefined && !record.isInterrupt;
        const others = isFree ? [records[index - 1], records[index + 1]] : [];
        const beside = others.find((other) => other?.at === record.at && other.wakes === undefined);
        const cpu = number(BUNDLE.cpu, (beside ?? record).cpu);
        packets.push(packet(bytes(PACKET.ftrace, Buffer.concat([cpu, event(record)]))));
    }
    return Buffer.concat(packets);
}

function event({ at, out, state, in: next, blocked, wakes, waker, isInterrupt }) {
    if (isInterrupt) {
        const list = (field, value) => bytes(field, varint(value));
        const fields = [text(COMPACT.comms, "?"), list(COMPACT.at, at), list(COMPACT.pid, wakes), list(COMPACT.cpu, 0)];
        fields.push(list(COMPACT.prio, 120), list(COMPACT.comm, 0), list(COMPACT.flags, HARD_INTERRUPT));
        return bytes(BUNDLE.compact, Buffer.concat(fields));
    }
    const whole = (pid, field, fields) => {
        const parts = [number(EVENT.at, at), number(EVENT.pid, pid), bytes(field, Buffer.concat(fields))];
        return bytes(BUNDLE.event, Buffer.concat(parts));
    };
    if (wakes !== undefined) {
        const fields = [text(WAKING.comm, "?"), number(WAKING.pid, wakes), number(WAKING.prio, 120)];
        return whole(waker ?? 0, EVENT.waking, fields);
    }
    const bits = BITS_OF_BLOCKED[blocked] ?? BITS[state];
    const fields = [text(SWITCH.comm, "?"), number(SWITCH.pid, out), number(SWITCH.prio, 120), number(SWITCH.state, bits)];
    fields.push(text(SWITCH.nextComm, "?"), number(SWITCH.nextPid, next), number(SWITCH.nextPrio, 120));
    return whole(out, EVENT.switched, fields);
}

/* The states of threads, and their wakers, according to the records of a file. */
class Threads {
    constructor(records) {
        /* For each thread its states and their beginnings, in order. */
        this.of = new Map();
        for (const record of records) {
            if (record.wakes !== undefined) this.wake(record);
            else {
                const does = { running: "waits", new: "waits", blocked: "sleeps" }[record.state] ?? "is away";
                const isDeep = record.blocked in BITS_OF_BLOCKED;
                if (record.out) this.push(record.out, { at: record.at, does, isDeep, isInferred: record.isInferred });
                if (record.in) this.push(record.in, { at: record.at, does: "runs" });
            }
        }
    }

    push(thread, entry) {
        if (!this.of.has(thread)) this.of.set(thread, []);
        const entries = this.of.get(thread);
        entries.push({ thread, index: entries.length, ...entry });
        return entries.at(-1);
    }

    /** The last entry of a thread so far, or undefined. */
    last(thread) {
        return this.of.get(thread)?.at(-1);
    }

    wake({ at, wakes, waker, isInterrupt }) {
        const before = this.last(wakes);
        // It was already runnable.
        if (before && ["runs", "waits"].includes(before.does)) return;
        const entry = this.push(wakes, { at, does: "waits", wakes: true, slept: before, isInterrupt });
        const by = waker && this.last(waker);
        if (!by) return;
        entry.by = by;
        entry.isRunning = by.does === "runs";
    }

    /* The wakeup that begins the executing span around an entry, by Perfetto's definition, or undefined. */
    span(entry) {
        const entries = this.of.get(entry.thread);
        for (let index = entry.index; index >= 0; index -= 1) if (this.isBegin(entries[index])) return entries[index];
        return undefined;
    }

    isBegin(entry) {
        // An interval that is open at the end has no length there.
        if (entry.does !== "waits" || entry === this.last(entry.thread)) return false;
        // The first record of a thread in the file, or the end of a sleep by a thread that is seen running, or by an interrupt.
        return entry.index === 0 || (entry.wakes && entry.slept.does === "sleeps" && (entry.isRunning || entry.isInterrupt));
    }

    /* Perfetto's edges: to the span of the waker, and to the previous one of the same thread. */
    waker(begin) {
        return begin.isRunning ? this.span(begin.by) : undefined;
    }

    before(begin) {
        return begin.slept && this.span(begin.slept);
    }
}

class Path {
    constructor() {
        /* Threads with their times, backwards from the end. */
        this.segments = [];
    }

    /* The path consists of this thread from `from` to `to`, if that is not empty. */
    add(thread, from, to) {
        if (from >= to) return;
        const last = this.segments.at(-1);
        if (last && last.thread === thread && last.from === to) last.from = from;
        else this.segments.push({ thread, from, to });
    }

    done() {
        return this.segments.reverse();
    }
}

const later = (a, b) => (a > b ? a : b);
const earlier = (a, b) => (a < b ? a : b);

/** The path by Perfetto's rules. */
function byPerfetto(threads, thread, from, to) {
    const path = new Path();
    const entries = threads.of.get(thread) ?? [];
    const add = (of, begin, end) => path.add(of, later(begin, from), earlier(end, to));
    let until = earlier(to, entries.at(-1)?.at ?? to);
    for (let index = entries.length - 1; index >= 0 && until > from; index -= 1) {
        const begin = entries[index];
        if (begin.at > until || !threads.isBegin(begin)) continue;
        // Its own span, and before that the sleep from which it was woken.
        add(thread, begin.at, until);
        until = begin.at;
        if (!begin.slept) break;
        sleep(threads, begin, add);
        until = begin.slept.at;
    }
    return path.done();
}

/* The sleep before a span: from waker to waker; an uninterruptible one is handled differently. */
function sleep(threads, root, add) {
    const since = root.slept.at;
    // Otherwise it takes at most one step.
    const hasBefore = threads.before(root) !== undefined;
    let [node, until] = [root, root.at];
    while (until > since) {
        const waker = threads.waker(node);
        const isSelf = !waker || (node.slept !== undefined && node.slept.isDeep);
        const next = isSelf ? threads.before(node) : waker;
        if (!next) break;
        const begin = later(next.at, since);
        if (isSelf && waker && node.slept) {
            const slept = later(node.slept.at, since);
            kernel(threads, node, slept, until, add);
            add(next.thread, begin, slept);
        } else add(next.thread, begin, until);
        [node, until] = [next, begin];
        if (!hasBefore) break;
    }
}

function kernel(threads, root, since, to, add) {
    let [node, until] = [root, to];
    while (until > since) {
        const next = threads.waker(node);
        if (!next) break;
        const begin = later(next.at, since);
        add(next.thread, begin, until);
        [node, until] = [next, begin];
    }
    add(root.thread, since, until);
}

/** The path by the rules of docs/reference/why.md. */
function byWhy(threads, thread, from, to) {
    const path = new Path();
    const entries = threads.of.get(thread) ?? [];
    walk(threads, { entries, index: entries.length - 1, followed: [thread] }, from, to, path);
    return path.done();
}

/* The states of a thread, backwards from its entry `index`, and the thread that it waited for. */
function walk(threads, { entries, index, followed }, from, to, path) {
    let until = to;
    for (; index >= 0 && until > from; index -= 1) {
        const entry = entries[index];
        if (entry.at >= until) continue;
        const begin = later(entry.at, from);
        const end = entries[index + 1];
        const isWoken = entry.does === "sleeps" && !entry.isInferred && end?.at === until && end.wakes;
        const waker = isWoken ? follow(threads, end.by, begin, until, followed) : undefined;
        if (waker) {
            path.add(end.by.thread, waker.left, until);
            walk(threads, waker, begin, waker.left, path);
        } else path.add(followed.at(-1), begin, until);
        until = begin;
    }
    path.add(followed.at(-1), from, until);
}

/** A waker that had a CPU at the end of the sleep, or left it just before. */
function follow(threads, by, from, to, followed) {
    if (!by || followed.length >= MOST_DEEP || followed.includes(by.thread)) return undefined;
    const entries = threads.of.get(by.thread);
    let left = to;
    for (let index = by.index; index >= 0; index -= 1) {
        const { does, at } = entries[index];
        if (does === "runs") return { entries, index, left, followed: [...followed, by.thread] };
        if (to - at > UNDERWAY || at <= from) return undefined;
        left = at;
    }
    return undefined;
}

/* Consecutive segments of threads, merged if they belong to the same thread. */
function joined(segments) {
    const path = new Path();
    for (const { thread, from, to } of [...segments].reverse()) path.add(thread, from, to);
    return path.done();
}

const shown = (path, from) => path.map((each) => `${each.thread} ${each.from - from}..${each.to - from}`).join(", ");

/* The intervals of a file: the longest of each kind of COMMAND's threads, and their whole lives. */
function explained(file) {
    const ask = (...options) => {
        const found = execFileSync(fxtrec, ["why", "--json", ...options, file], { maxBuffer: 1 << 30, stdio: ["ignore", "pipe", "pipe"] });
        return JSON.parse(found).explanations;
    };
    const longest = ["late", "blocked", "turn"].flatMap((metric) => ask("--metric", metric, "--worst", "4"));
    const threads = new Set(longest.map((why) => String(why.thread.tid)));
    return [...longest, ...[...threads].flatMap((thread) => ask("--life", "--thread", thread))];
}

/** Why two paths have different threads from `from` to `to`. */
function rule(thread, found, link) {
    if (link.state === "unknown") return "before a thread's first record, or unknown to fxtrec for another reason";
    if (link.state === "underway") return "the waker has left its CPU";
    if (found === undefined) return "nobody, by Perfetto, which knows no earlier wakeup or no end";
    if (found === thread) return "the waiting thread itself, by Perfetto, which sees no span of the waker";
    return "before the sleep of a waker";
}

/* Counts the stretches in which two paths have different threads, by cause. */
function differences(why, found, counts) {
    const thread = why.thread.tid;
    const times = new Set([...why.chain.flatMap((link) => [BigInt(link.from_ns), BigInt(link.to_ns)]), ...found.flatMap(({ from, to }) => [from, to])]);
    const sorted = [...times].sort((a, b) => (a < b ? -1 : 1));
    let last;
    for (const at of sorted.slice(0, -1)) {
        const link = why.chain.find((link) => BigInt(link.from_ns) <= at && at < BigInt(link.to_ns));
        const theirs = found.find(({ from, to }) => from <= at && at < to)?.thread;
        const name = link && link.thread.tid !== theirs ? rule(thread, theirs, link) : undefined;
        if (name && name !== last) counts.set(name, (counts.get(name) ?? 0) + 1);
        last = name;
    }
}

async function compare(file) {
    const records = scheduling(file);
    const threads = new Threads(records);
    const inferred = records.filter((record) => record.isInferred).map((record) => record.at);
    const processor = await TraceProcessor.of(engine, asFtrace(records));
    await processor.query("INCLUDE PERFETTO MODULE sched.thread_executing_span");
    const counts = new Map();
    let [same, different, unsure, waits] = [0, 0, 0, 0];
    for (const why of explained(file)) {
        const thread = why.thread.tid;
        const [from, to] = [BigInt(why.from_ns), BigInt(why.to_ns)];
        const rows = await processor.query(`
            SELECT tid, path.ts, path.dur FROM _thread_executing_span_critical_path(
                (SELECT utid FROM thread WHERE tid = ${thread}), ${from}, ${to - from}) AS path
            JOIN thread USING (utid) ORDER BY path.ts`);
        const found = joined(rows.map(([thread, ts, dur]) => ({ thread: Number(thread), from: ts, to: ts + dur })));
        const told = joined(why.chain.map((link) => ({ thread: link.thread.tid, from: BigInt(link.from_ns), to: BigInt(link.to_ns) })));
        const pairs = [[found, byPerfetto(threads, thread, from, to), "Perfetto"], [told, byWhy(threads, thread, from, to), "fxtrec why"]];
        const wrong = pairs.filter(([is, expected]) => shown(is, from) !== shown(expected, from));
        if (wrong.length > 0) {
            // No event reported such a switch, so the previous state of neither thread is known.
            if (inferred.some((at) => from <= at && at <= to)) {
                unsure += 1;
                continue;
            }
            const lines = wrong.map(([is, expected, who]) => `\n  ${who}: ${shown(is, from)}\n  by the rules: ${shown(expected, from)}`);
            throw new Error(`${why.thread.comm}[${thread}] from ${from} on:${lines.join("")}`);
        }
        if (shown(found, from) === shown(told, from)) same += 1;
        else different += 1;
        differences(why, found, counts);
        waits += why.chain.filter((link) => link.state === "blocked" && link.ended_by !== "thread").length;
    }
    console.log(`  ${path.basename(file)}: ${same} critical paths are the same, ${different} differ by rules of docs/reference/why.md`);
    for (const [name, count] of counts) console.log(`    in ${count} stretches: ${name}`);
    if (unsure > 0) console.log(`    not compared, since a switch was not reported: ${unsure}`);
    console.log(`    ${waits} waits of these threads that no known thread ended, and in which both have the thread itself`);
    if (same + different <= unsure) throw new Error("too few paths could be compared");
}

async function main() {
    for (const file of files) await compare(file).catch((error) => Promise.reject(new Error(`${file}: ${error.message}`)));
}

main().then(
    () => process.exit(0),
    (error) => {
        console.error(`scripts/check-perfetto: ${error.message}`);
        process.exit(1);
    },
);
