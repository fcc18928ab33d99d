// Loads an FXT trace into Perfetto's own trace processor, and compares the result with `fxtrec dump` of the same file.
//
//   node perfetto.js FXTREC ENGINE FILE [CONVERTED]     ENGINE is the folder of a Perfetto UI
//
// With CONVERTED, the result of `fxtrec convert` from FILE for Perfetto, that file is loaded instead.

"use strict";
const fs = require("node:fs");
const { records, tid } = require("./perfetto_dump.js");
const { TraceProcessor } = require("./perfetto_engine.js");

const [fxtrec, engine, file, converted] = process.argv.slice(2);

const add = (map, key, value) => map.set(key, (map.get(key) ?? 0n) + value);

/**
 * The content of the file according to fxtrec: for each thread, its slices, their time and its wakeups, and the number of events with each
 * name. Some kernels do not report every switch. A thread then gets one CPU before it has left another. When it left that one is unknown,
 * and so is its time.
 */
function dumped() {
    const told = { slices: new Map(), time: new Map(), wakeups: new Map(), events: new Map(), uncertain: new Set() };
    const running = new Map();
    for (const { at, kind, rest } of records(fxtrec, file)) {
        if (kind === "context_switch") {
            const [, cpu, incoming] = rest.match(/^cpu=(\d+) .*? in=(\d+):/);
            const [thread, since] = running.get(cpu) ?? [];
            if (thread) add(told.time, thread, at - since);
            for (const [other, [there]] of running) {
                if (other !== cpu && incoming !== "0" && there === tid(incoming)) told.uncertain.add(there);
            }
            running.set(cpu, [tid(incoming), at]);
            // Perfetto has no slices of the idle task.
            if (incoming !== "0") add(told.slices, tid(incoming), 1n);
        } else if (kind === "wakeup") {
            add(told.wakeups, tid(rest.match(/ thread=(\d+):/)[1]), 1n);
        } else if (["instant", "async_begin"].includes(kind)) {
            const name = rest.match(/^"sched" "([^"]*)"/);
            if (name) add(told.events, name[1], 1n);
        }
    }
    return told;
}

function compare(what, found, expected) {
    for (const key of new Set([...found.keys(), ...expected.keys()])) {
        const [is, wanted] = [found.get(key) ?? 0n, expected.get(key) ?? 0n];
        if (is !== wanted) throw new Error(`${what} of ${key}: ${is}, by fxtrec ${wanted}`);
    }
    const sum = [...expected.values()].reduce((sum, value) => sum + value, 0n);
    console.log(`  ${what}: ${sum}, the same`);
}

async function main() {
    const processor = await TraceProcessor.of(engine, fs.readFileSync(converted ?? file));
    const faults = await processor.query("SELECT name, severity, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0");
    if (faults.length > 0) throw new Error(`Perfetto counts faults: ${faults.join("; ")}`);
    const [[kinds]] = await processor.query("SELECT count(*) FROM stats WHERE severity IN ('error', 'data_loss')");
    console.log(`  of ${kinds} kinds of errors and losses that Perfetto counts, none`);
    const told = dumped();
    const of = async (sql) => new Map(await processor.query(sql));
    const threads = "FROM sched JOIN thread USING (utid) WHERE NOT coalesce(is_idle, 0)";
    compare("slices", await of(`SELECT tid, count(*) ${threads} GROUP BY tid`), told.slices);
    // A slice that is open at the end has no length in one of the two.
    const time = await of(`SELECT tid, sum(dur) ${threads} AND end_state IS NOT NULL GROUP BY tid`);
    for (const thread of told.uncertain) [time, told.time].forEach((times) => times.delete(thread));
    if (told.uncertain.size * 10 > told.time.size) throw new Error(`${told.uncertain.size} threads are on two CPUs at once`);
    compare("nanoseconds on CPUs", time, told.time);
    if (told.uncertain.size > 0) console.log(`  without ${told.uncertain.size} threads on two CPUs at once, after a switch that the kernel did not report`);
    // ftrace events have wakers, and make threads runnable at once.
    const woken = converted ? "waker_utid IS NOT NULL" : "state = 'W'";
    const wakeups = `SELECT tid, count(*) FROM thread_state JOIN thread USING (utid) WHERE ${woken} GROUP BY tid`;
    compare("wakeups", await of(wakeups), told.wakeups);
    // Moves are ftrace events there.
    if (converted) told.events.delete("migrate");
    compare("events", await of("SELECT name, count(*) FROM slice WHERE category = 'sched' GROUP BY name"), told.events);
}

main().then(
    () => process.exit(0),
    (error) => {
        console.error(`scripts/check-perfetto: ${file}: ${error.message}`);
        process.exit(1);
    },
);
