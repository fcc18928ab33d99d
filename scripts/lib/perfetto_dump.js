// The records of an FXT file that have a time, as `fxtrec dump` prints them.

"use strict";
const { execFileSync } = require("node:child_process");

function* records(fxtrec, file) {
    const text = execFileSync(fxtrec, ["dump", file], { maxBuffer: 1 << 30 }).toString();
    for (const line of text.split("\n")) {
        const [, time, kind, rest] = line.match(/^ *\d+ +(\d+\.\d{9}) +(\w+) +(.*)/) ?? [];
        if (time) yield { at: BigInt(time.replace(".", "")), kind, rest };
    }
}

/** Perfetto has the lower half of a koid as the id of the thread. */
const tid = (koid) => BigInt.asUintN(32, BigInt(koid));

module.exports = { records, tid };
