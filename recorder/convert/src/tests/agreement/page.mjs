// Unfolds pages by their own scripts: node page.mjs FOLDER-OF-SCRIPTS. Each line of the input is a page, as a JSON string;
// each line of the output its lanes: of each CPU and each thread the slices, as begin, end, and thread or state.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { runInThisContext } from "node:vm";

const folder = process.argv[2];
const scripts = ["blocks", "trace", "unfold"].map((name) => readFileSync(`${folder}/${name}.js`, "utf8"));

// The text of an element of the page.
function text(page, id) {
  const begin = `id="${id}">`;
  const from = page.indexOf(begin) + begin.length;
  return page.slice(from, page.indexOf("</script>", from));
}

// A slice that a tile cuts goes on in the next one, which has it with its true begin.
function append(lane, slice) {
  const last = lane.at(-1);
  if (last && last[0] === slice[0] && last[2] === slice[2]) lane.pop();
  else if (last && last[1] > slice[0]) throw new Error(`${slice} begins before ${last} ends`);
  lane.push(slice);
}

async function unfold(page) {
  globalThis.document = { getElementById: (id) => ({ textContent: text(page, id) }) };
  globalThis.fx = {};
  for (const script of scripts) runInThisContext(script);
  const all = { cpus: {}, threads: {} };
  for (const tile of fx.trace.tiles.filter(({ block }) => block !== null)) {
    const events = fx.unfold.events(tile, await fx.blocks.columns(tile.block));
    for (const kind of ["cpus", "threads"]) {
      for (const [id, { start, end, what }] of events[kind]) {
        for (let at = 0; at < start.length; at++) {
          // The lane of a thread that is gone ends with the tile.
          const isGone = kind === "threads" && what[at] === fx.unfold.STATE.DEAD;
          if (!isGone) append((all[kind][id] ??= []), [start[at], end[at], what[at]]);
        }
      }
    }
  }
  return all;
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await unfold(JSON.parse(line)).catch((error) => ({ error: String(error) }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
