// Compares the stacks that a file has for Perfetto, in blobs if it has them and in its conversion, with the output of `fxtrec dump` and
// `fxtrec report`.
//
//   node perfetto_stacks.js FXTREC ENGINE PYTHON FILE       ENGINE is the folder of a Perfetto UI
//
// Perfetto reads them from v58 on, into `stack_sample` and `stack_sample_counter`. The engine of v52 has no such tables, and skips the
// packets. So it gets each sample as the equivalent perf sample, with the functions, files and stacks of the file unchanged: then they are
// in `perf_sample`, `stack_profile_callsite` and `stack_profile_frame`, and their weights in `counter`. The messages of Perfetto's Python
// package check that the packets match its newer format.

"use strict";
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { execFileSync } = require("node:child_process");
const { TraceProcessor, number, bytes, fields, field } = require("./perfetto_engine.js");

const [fxtrec, engine, python, file] = process.argv.slice(2);

const PACKET = { perfSample: 66, defaults: 59, stackSample: 135 };
const DEFAULTS = { perfSample: 12, stackSample: 100 };
const STACK_SAMPLE = { task: 1, stack: 6, weight: 11, pid: 2, tid: 3 };
const PERF_SAMPLE = { cpu: 1, pid: 2, tid: 3, stack: 4, weight: 6 };
const BLOB = { type: 5n, perfetto: 3n, inline: 0x8000n };
/** The kinds of stacks, in the flags of a backtrace. */
const SOURCES = ["fxtrec.offcpu", "fxtrec.wake", "fxtrec.cpu"];
/* Longer function names are truncated to this many bytes. */
const NAME_BYTES = 2048;

/* The content of a file's blobs for Perfetto. */
function packets(trace) {
    const parts = [];
    for (let at = 0; at < trace.length; ) {
        const header = trace.readBigUInt64LE(at);
        const bits = (first, last) => (header >> BigInt(first)) & ((1n << BigInt(last - first + 1)) - 1n);
        const words = Number(bits(0, 3) === 15n ? bits(4, 35) : bits(4, 15));
        if (words === 0) throw new Error(`a record without words at ${at}`);
        if (bits(0, 3) === BLOB.type && bits(48, 55) === BLOB.perfetto) {
            const name = bits(16, 31);
            const behind = name & BLOB.inline ? Math.ceil(Number(name - BLOB.inline) / 8) : 0;
            const from = at + 8 * (1 + behind);
            parts.push(trace.subarray(from, from + Number(bits(32, 46))));
        }
        at += 8 * words;
    }
    return Buffer.concat(parts);
}

/* An unchanged field. */
function again(name, value) {
    return typeof value === "bigint" ? number(name, value) : bytes(name, value);
}

/* The same samples as perf samples, each source with a counter of its name. */
function asPerf(stream) {
    const out = [];
    for (const [, packet] of fields(stream)) {
        const parts = [];
        for (const [name, value] of fields(packet)) {
            if (name === PACKET.stackSample) {
                const task = field(value, STACK_SAMPLE.task);
                const sample = [
                    number(PERF_SAMPLE.cpu, 0),
                    number(PERF_SAMPLE.pid, field(task, STACK_SAMPLE.pid) ?? 0n),
                    number(PERF_SAMPLE.tid, field(task, STACK_SAMPLE.tid) ?? 0n),
                    number(PERF_SAMPLE.stack, field(value, STACK_SAMPLE.stack)),
                    number(PERF_SAMPLE.weight, field(value, STACK_SAMPLE.weight) ?? 0n),
                ];
                parts.push(bytes(PACKET.perfSample, Buffer.concat(sample)));
            } else if (name === PACKET.defaults) {
                const source = field(field(value, DEFAULTS.stackSample), 1);
                const timebase = bytes(3, bytes(1, source));
                parts.push(bytes(PACKET.defaults, bytes(DEFAULTS.perfSample, bytes(1, timebase))));
            } else parts.push(again(name, value));
        }
        out.push(bytes(1, Buffer.concat(parts)));
    }
    return Buffer.concat(out);
}

/* The stacks of a file, according to fxtrec, by time and thread: kind, and for each function, the innermost first, its possible names. */
function dumped() {
    const names = new Map();
    const stacks = [];
    const text = execFileSync(fxtrec, ["dump", "--json", file], { maxBuffer: 1 << 30 }).toString();
    for (const line of text.split("\n")) {
        if (!/"type":"(backtrace|userspace_object)"/.test(line)) continue;
        // 64-bit numbers exceed JavaScript's numbers; those in names stay unchanged.
        const quoted = (_, text, digits) => text ?? `"${digits}"`;
        const record = JSON.parse(line.replace(/("(?:[^"\\]|\\.)*")|(?<=[:[,])(\d+)(?=[,\]}])/g, quoted));
        const of = BigInt(record.process.koid);
        if (record.type === "userspace_object") {
            const key = `${of} ${record.pointer}`;
            names.set(key, (names.get(key) ?? new Set()).add(record.name));
        } else stacks.push({ ...record, of });
    }
    const short = (name) => Buffer.from(name).subarray(0, NAME_BYTES).toString().replace(/\ufffd$/, "");
    return stacks.map(({ of, thread, flags, frames, time_ns: at }) => ({
        at: BigInt(at),
        tid: BigInt.asUintN(32, BigInt(thread.koid)),
        source: SOURCES[(flags >> 8) & 3],
        names: frames.map((frame) => {
            const known = names.get(`${BigInt(frame) >> 63n ? 0n : of} ${frame}`);
            return known && new Set([...known].map(short));
        }),
    }));
}

/* Perfetto's stacks: time, thread, names and weight of each, by source. */
async function imported(stream) {
    const processor = await TraceProcessor.of(engine, asPerf(stream));
    const faults = await processor.query("SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0");
    if (faults.length > 0) throw new Error(`Perfetto counts faults: ${faults.join("; ")}`);
    const frames = new Map(await processor.query("SELECT id, name FROM stack_profile_frame"));
    const callsites = new Map();
    for (const [id, parent, frame] of await processor.query("SELECT id, parent_id, frame_id FROM stack_profile_callsite")) {
        callsites.set(id, { parent, name: frames.get(frame) });
    }
    const samples = await processor.query("SELECT ts, tid, callsite_id, perf_session_id FROM perf_sample JOIN thread USING (utid)");
    const counters = await processor.query("SELECT t.name, ts, value FROM counter c JOIN track t ON c.track_id = t.id ORDER BY c.id");
    const weights = new Map(SOURCES.map((source) => [source, []]));
    // A converted file also has other counters.
    for (const [source, at, value] of counters) weights.get(source)?.push([at, value]);
    const stacks = samples.map(([at, tid, leaf]) => {
        const names = [];
        for (let id = leaf; id !== null; id = callsites.get(id).parent) names.push(callsites.get(id).name);
        return { at, tid, names };
    });
    return { stacks, weights };
}

/** Whether a function has no name. */
const isUnnamed = (name) => /^0x|\+0x/.test(name);

/**
 * Each stack of one file is in the other. If a process executes several programs, an address may have a name in one that was not found for
 * another: such functions, unnamed only for Perfetto, may be one in a hundred.
 */
function compareStacks(found, expected) {
    const key = ({ at, tid, names }) => `${at} ${tid} ${names.length}`;
    const left = new Map();
    for (const stack of expected) left.set(key(stack), [...(left.get(key(stack)) ?? []), stack]);
    let [named, functions, unnamed] = [0, 0, 0];
    for (const stack of found) {
        const fits = (it) => it.names.every((known, at) => isUnnamed(stack.names[at]) || known?.has(stack.names[at]));
        const candidates = left.get(key(stack)) ?? [];
        const at = candidates.findIndex(fits);
        if (at < 0) throw new Error(`fxtrec has no such stack: ${key(stack)} ${stack.names}; but ${JSON.stringify(candidates.map((it) => it.names.map((of) => of && [...of])))}`);
        const [own] = candidates.splice(at, 1);
        named += own.names.filter(Boolean).length;
        unnamed += own.names.filter((known, at) => known && isUnnamed(stack.names[at])).length;
        functions += own.names.length;
    }
    const more = [...left.values()].flat();
    if (more.length > 0) throw new Error(`Perfetto lacks ${more.length} stacks, the first at ${more[0].at}`);
    if (named === 0) throw new Error("no function has a name");
    if (unnamed * 100 > named) throw new Error(`${unnamed} of ${named} functions have a name, but not for Perfetto`);
    console.log(`  stacks: ${found.length} with ${functions} functions, ${named - unnamed} of them by name, the same; ${unnamed} are unnamed for Perfetto alone`);
}

/* The weights of waits are the times in the report; for a recording, it has some of them. */
function compareWeights(weights, stacks, isRecording) {
    for (const [source, all] of weights) {
        const expected = stacks.filter((stack) => stack.source === source).length;
        if (all.length !== expected) throw new Error(`${source}: ${all.length} weights of ${expected}`);
    }
    const frequency = execFileSync(fxtrec, ["dump", file], { maxBuffer: 1 << 30 }).toString().match(/"stack_info".* frequency=(\d+)/)?.[1];
    // If the period is unknown, each sample of a CPU counts as one.
    const period = frequency === undefined ? 1n : 1_000_000_000n / BigInt(frequency);
    const wrong = weights.get("fxtrec.cpu").find(([, weight]) => BigInt(weight) !== period);
    if (wrong) throw new Error(`a sample of a CPU weighs ${wrong[1]}`);
    if (weights.get("fxtrec.offcpu").length === 0) return console.log(`  weights: ${[...weights].map(([source, all]) => `${source} ${all.length}`).join(", ")}`);
    const json = JSON.parse(execFileSync(fxtrec, ["report", file, "--stacks", "--json", "--worst", "10000000"], { maxBuffer: 1 << 30 }));
    const away = json.worst.filter((wait) => wait.frames).map((wait) => [wait.begin_ns, wait.away_ns]);
    away.sort(([one], [other]) => one - other);
    const own = weights.get("fxtrec.offcpu").map(([at, weight]) => [Number(at), weight]);
    // The two read the clock at different points of a switch, microseconds apart, or more if a CPU was stopped in between.
    let close = 0;
    for (const [begun, time] of away) {
        const near = own.some(([at, weight]) => Math.abs(at - begun) < 100_000 && Math.abs(weight - time) < 100_000);
        close += near ? 1 : 0;
    }
    if ((isRecording && away.length === 0) || close * 10 < away.length * 9) throw new Error(`${close} of ${away.length} waits have their weight`);
    console.log(`  weights: ${[...weights].map(([source, all]) => `${source} ${all.length}`).join(", ")}; ${close} of ${away.length} waits weigh what the report has`);
}

/* Checks that the package's own messages can read the packets, contain each field, and give the same result. */
function compareMessages(stream, weights) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "fxtrec-"));
    try {
        const packed = path.join(folder, "packets");
        fs.writeFileSync(packed, stream);
        const read = JSON.parse(execFileSync(python, [path.join(__dirname, "perfetto_messages.py"), packed]));
        for (const [source, all] of weights) {
            const sum = all.reduce((sum, [, weight]) => sum + BigInt(weight), 0n);
            const [count, found] = read[source] ?? [0, "0"];
            if (count !== all.length || BigInt(found) !== sum) throw new Error(`${source}: ${count} messages of ${found} ns, for ${all.length} of ${sum} ns`);
        }
        console.log("  messages: every field is one of Perfetto's StackSample, with the same sums");
    } finally {
        fs.rmSync(folder, { recursive: true });
    }
}

/* The result of converting the file. */
function converted() {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "fxtrec-"));
    try {
        const output = path.join(folder, "converted.pftrace");
        execFileSync(fxtrec, ["convert", "-q", file, output]);
        return fs.readFileSync(output);
    } finally {
        fs.rmSync(folder, { recursive: true });
    }
}

async function main() {
    const stacks = dumped();
    if (stacks.length === 0) throw new Error("there are no stacks");
    const blobs = packets(fs.readFileSync(file));
    const isRecording = blobs.length > 0;
    for (const stream of isRecording ? [blobs, converted()] : [converted()]) {
        const found = await imported(stream);
        compareStacks(found.stacks, stacks);
        compareWeights(found.weights, stacks, isRecording);
        compareMessages(stream, found.weights);
    }
}

main().then(
    () => process.exit(0),
    (error) => {
        console.error(`scripts/check-perfetto: the stacks of ${file}: ${error.message}`);
        process.exit(1);
    },
);
