// The table of contents, as objects: threads, CPUs, gaps, and where the blocks
// are. Times are nanoseconds after the start of the trace.

(() => {
  const contents = JSON.parse(document.getElementById("contents").textContent);
  // A reused thread id has a generation above these bits.
  const IDS = 2 ** 22;
  const plain = contents.recorder === null;
  // Represents the number of a tile's block.
  const LEFT_OUT = -1;

  const threads = contents.threads.map(
    ([koid, name, process, processName, running, waiting, longest], index) => {
      const tid = plain ? koid : koid % IDS;
      return {
        index,
        koid,
        tid,
        pid: process === null ? null : plain ? process : process % IDS,
        process: process ?? koid,
        name: name ?? `[${tid}]`,
        processName: processName ?? "",
        running,
        waiting,
        longest,
        rows: 0,
      };
    },
  );
  // Operations across threads: tracks for spans, with indexes after those of all threads.
  const tracks = (contents.told?.tracks ?? []).map(([category, name], place) => ({ index: threads.length + place, name: contents.names[name], category: contents.names[category], rows: 0 }));
  const counters = (contents.told?.counterList ?? []).map(([name, process, lowest, highest, count, kept], index) => ({ index, name, process, lowest, highest, count, kept }));
  for (const [index, rows] of contents.depths) (threads[index] ?? tracks[index - threads.length]).rows = rows;

  const byKoid = new Map(threads.map((thread) => [thread.koid, thread]));
  const cpus = contents.cpus.map(([number, busy]) => ({ number, busy }));
  const late = contents.late.map(([tile, head, cpu, thread, since, ranSince]) => ({ tile, head, cpu, thread, since, ranSince }));
  const gaps = contents.gaps.map(([cpu, from, to, count]) => ({ cpu, from, to, count }));

  const length = Math.max(contents.length, 1);
  const tiles = contents.tiles.map(([from, events, block, spans], index) => ({
    index,
    from: index === 0 ? 0 : from,
    to: index + 1 < contents.tiles.length ? contents.tiles[index + 1][0] : length,
    begin: from,
    events,
    // Its events and spans are not in this page, because of the size limit.
    out: block === LEFT_OUT,
    block: block === LEFT_OUT ? null : block,
    spans,
  }));
  // The tiles that are in the page, by their numbers.
  const kept = tiles.filter(({ out }) => !out).map(({ index }) => index);
  const levels = contents.levels.map(([width, chunks]) => ({ width, chunks }));

  // The index of the last tile that begins at `time` or before.
  function tileAt(time) {
    let low = 0;
    let high = tiles.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (tiles[middle].from <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // Whether the exact events of a time are not in this page.
  const isOut = (time) => tiles[tileAt(time)].out;

  // The index in `kept` of the first tile at or after this one.
  function keptFrom(index) {
    let low = 0;
    let high = kept.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (kept[middle] < index) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The stretch around a tile for which this page has no exact events.
  function outAround(index) {
    const next = keptFrom(index);
    return { from: next > 0 ? tiles[kept[next - 1]].to : 0, to: next < kept.length ? tiles[kept[next]].from : length };
  }

  // The commands that create a page with all events of a stretch.
  function commandFor(from, to) {
    const seconds = (time) => {
      const nanos = BigInt(contents.begin) + BigInt(Math.min(Math.max(Math.round(time), 0), length));
      return `${nanos / 1000000000n}.${String(nanos % 1000000000n).padStart(9, "0")}`;
    };
    const name = contents.file ?? "FILE";
    const quoted = /^[\w./+:@-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
    const file = quoted.startsWith("-") ? `./${quoted}` : quoted;
    return `fxtrec cut ${file} part.fxt --from ${seconds(from)} --to ${seconds(to + 1)} && fxtrec report part.fxt --html part.html`;
  }

  // The date and time of day at a time of the trace, if recorded.
  function clock(time) {
    if (contents.wall === null) return null;
    const nanos = BigInt(contents.wall) + BigInt(contents.begin) + BigInt(Math.round(time));
    const date = new Date(Number(nanos / 1000000n));
    const two = (number) => String(number).padStart(2, "0");
    const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
    const hours = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
    return { day, hours, nanos: String(nanos % 1000000000n).padStart(9, "0") };
  }

  fx.trace = { ...contents, contents, threads, tracks, counters, byKoid, cpus, late, gaps, length, tiles, kept, levels, tileAt, isOut, keptFrom, outAround, commandFor, clock };
})();
