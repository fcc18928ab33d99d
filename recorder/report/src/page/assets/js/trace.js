// The table of contents, as objects: threads, CPUs, gaps, and where the blocks
// are. Times are nanoseconds after the begin of the trace.

(() => {
  const contents = JSON.parse(document.getElementById("contents").textContent);
  // A thread id that was used again has a generation above these bits.
  const IDS = 2 ** 22;
  const plain = contents.recorder === null;

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
  // Operations that go on across threads: spans of what is no thread, with a number behind those of all threads.
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
    block,
    spans,
  }));
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

  // Day and time of day at a time of the trace, where the recording says so.
  function clock(time) {
    if (contents.wall === null) return null;
    const nanos = BigInt(contents.wall) + BigInt(contents.begin) + BigInt(Math.round(time));
    const date = new Date(Number(nanos / 1000000n));
    const two = (number) => String(number).padStart(2, "0");
    const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
    const hours = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
    return { day, hours, nanos: String(nanos % 1000000000n).padStart(9, "0") };
  }

  fx.trace = { ...contents, contents, threads, tracks, counters, byKoid, cpus, late, gaps, length, tiles, levels, tileAt, clock };
})();
