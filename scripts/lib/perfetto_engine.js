// Perfetto's own trace processor: the WebAssembly of its UI, in node.
//
// The bundle is the code that the UI runs as a web worker. It is evaluated here with the few worker APIs that it uses, and without node's,
// since it refuses to run on node. Input and output are messages of Perfetto's `TraceProcessorRpc`, whose few relevant fields are written
// and read by number.

"use strict";
const fs = require("node:fs");
const path = require("node:path");

// Fields of TraceProcessorRpc and of its content.
const RPC = { seq: 1, request: 2, fatal: 5, appendTrace: 101, query: 103, appended: 201, rows: 203 };
const METHOD = { append: 1, finalize: 2, query: 3 };
const ROWS = { column: 1, error: 2, batch: 3 };
const BATCH = { kinds: 1, ints: 2, doubles: 3, strings: 5, isLast: 6 };
const CELL = { null: 1, int: 2, double: 3, string: 4 };

function varint(value) {
    const bytes = [];
    for (let rest = BigInt(value); ; rest >>= 7n) {
        if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
        bytes.push(Number(rest & 127n) | 128);
    }
}
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);

class Cursor {
    constructor(buffer) {
        this.buffer = buffer;
        this.at = 0;
    }
    get isAtEnd() {
        return this.at >= this.buffer.length;
    }
    varint() {
        let value = 0n;
        for (let shift = 0n; ; shift += 7n) {
            const byte = this.buffer[this.at++];
            value |= BigInt(byte & 127) << shift;
            if (byte < 128) return value;
        }
    }
    take(length) {
        this.at += length;
        return this.buffer.subarray(this.at - length, this.at);
    }
}

/* The fields of a message: for each its number, and a bigint or bytes. */
function* fields(buffer) {
    for (const cursor = new Cursor(buffer); !cursor.isAtEnd; ) {
        const key = Number(cursor.varint());
        const wire = key & 7;
        if (wire === 0) yield [key >> 3, cursor.varint()];
        else if (wire === 1) yield [key >> 3, cursor.take(8)];
        else if (wire === 2) yield [key >> 3, cursor.take(Number(cursor.varint()))];
        else if (wire === 5) yield [key >> 3, cursor.take(4)];
        else throw new Error(`a field of wire type ${wire}`);
    }
}

function field(buffer, wanted) {
    for (const [name, value] of fields(buffer)) if (name === wanted) return value;
    return undefined;
}

/** A repeated number, packed or not. */
function* numbers(value) {
    if (typeof value === "bigint") return yield value;
    for (const cursor = new Cursor(value); !cursor.isAtEnd; ) yield cursor.varint();
}

class TraceProcessor {
    /* `engine` is the folder of a Perfetto UI, which contains engine_bundle.js and the .wasm. */
    constructor(engine) {
        const worker = { location: { href: "file:///engine_bundle.js" } };
        const read = (name) => fs.readFileSync(path.join(engine, path.basename(String(name))));
        Object.assign(globalThis, {
            self: worker,
            location: worker.location,
            WorkerGlobalScope: class {},
            fetch: async (name) => new Response(read(name), { headers: { "content-type": "application/wasm" } }),
            XMLHttpRequest: class {
                open(_method, name) {
                    this.name = name;
                }
                send() {
                    this.response = read(this.name);
                }
            },
        });
        const bundle = fs.readFileSync(path.join(engine, "engine_bundle.js"), "utf8");
        new Function("process", "require", "module", "exports", bundle)();
        this.replies = [];
        this.port = { postMessage: (reply) => this.replies.push(Buffer.from(reply)) };
        worker.onmessage({ data: this.port });
        this.seq = 0;
    }

    /* Calls a method, and returns all parts of its answer, which arrive before the call returns. */
    async call(method, argument = Buffer.alloc(0)) {
        // Its initialization is a promise, which is fulfilled when the code is compiled; reading with XMLHttpRequest makes that
        // synchronous.
        if (this.seq === 0) await new Promise(setImmediate);
        const request = Buffer.concat([number(RPC.seq, this.seq++), number(RPC.request, method), argument]);
        this.port.onmessage({ data: new Uint8Array(bytes(1, request)) });
        // The answers are a stream of messages.
        const parts = [...fields(Buffer.concat(this.replies.splice(0)))].map(([, part]) => part);
        for (const part of parts) {
            const fatal = field(part, RPC.fatal);
            if (fatal) throw new Error(`Perfetto gave up: ${fatal}`);
        }
        return parts;
    }

    /* An engine that has loaded a trace. Its log is not shown. */
    static async of(engine, trace) {
        const { log, warn } = console;
        console.log = console.warn = () => {};
        const processor = new TraceProcessor(engine);
        await processor.load(trace);
        Object.assign(console, { log, warn });
        return processor;
    }

    async load(trace) {
        const PIECE = 1 << 20;
        for (let at = 0; at < trace.length; at += PIECE) {
            const piece = bytes(RPC.appendTrace, trace.subarray(at, at + PIECE));
            for (const part of await this.call(METHOD.append, piece)) {
                const error = field(field(part, RPC.appended) ?? Buffer.alloc(0), 2);
                if (error) throw new Error(`Perfetto refused it: ${error}`);
            }
        }
        await this.call(METHOD.finalize);
    }

    /** The rows of a query, as arrays of bigints, numbers, strings and nulls. */
    async query(sql) {
        const parts = await this.call(METHOD.query, bytes(RPC.query, bytes(1, Buffer.from(sql))));
        const cells = [];
        let columns = 0;
        for (const part of parts) {
            for (const [name, value] of fields(field(part, RPC.rows))) {
                if (name === ROWS.column) columns += 1;
                else if (name === ROWS.error && value.length > 0) throw new Error(`${value} in ${sql}`);
                else if (name === ROWS.batch) cells.push(...TraceProcessor.cells(value));
            }
        }
        const rows = [];
        for (let at = 0; at < cells.length; at += columns) rows.push(cells.slice(at, at + columns));
        return rows;
    }

    static cells(batch) {
        const kinds = [];
        const of = { [CELL.int]: [], [CELL.double]: [], [CELL.string]: [] };
        for (const [name, value] of fields(batch)) {
            if (name === BATCH.kinds) kinds.push(...numbers(value));
            else if (name === BATCH.ints) for (const it of numbers(value)) of[CELL.int].push(BigInt.asIntN(64, it));
            else if (name === BATCH.strings) of[CELL.string].push(...value.toString().split("\0"));
            else if (name === BATCH.doubles) for (let at = 0; at < value.length; at += 8) of[CELL.double].push(value.readDoubleLE(at));
        }
        return kinds.map((kind) => (Number(kind) === CELL.null ? null : of[Number(kind)].shift()));
    }
}

module.exports = { TraceProcessor, number, bytes, varint, fields, field };
