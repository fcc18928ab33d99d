// A chunk of the pyramid: runs of equal bins for each lane.

(() => {
  // The runs of a lane. `end` counts bins from the start of the chunk.
  function runs(count, lengths) {
    const end = new Uint16Array(count);
    let at = 0;
    for (let run = 0; run < count; run++) {
      at += lengths.number();
      end[run] = at;
    }
    return end;
  }

  // A chunk: by CPU {end, busy, known, thread}, by thread {end, running,
  // waiting, disk, throttled, stolen, other}; shares are of 15.
  function chunk(columns) {
    const [lanes, counts, lengths, shares, on, tLanes, tCounts, tLengths, tShares] = columns;
    const cpus = new Map();
    for (let next = 0; lanes.more; ) {
      const cpu = next + lanes.number();
      next = cpu + 1;
      const end = runs(counts.number(), lengths);
      const lane = { end, busy: new Uint8Array(end.length), known: new Uint8Array(end.length), thread: new Uint32Array(end.length) };
      for (let run = 0; run < end.length; run++) {
        const both = shares.byte();
        lane.busy[run] = both >> 4;
        lane.known[run] = both & 15;
        lane.thread[run] = on.number();
      }
      cpus.set(cpu, lane);
    }
    const threads = new Map();
    for (let next = 0; tLanes.more; ) {
      const thread = next + tLanes.number();
      next = thread + 1;
      const end = runs(tCounts.number(), tLengths);
      const [running, waiting, disk, throttled, stolen, other] = [0, 0, 0, 0, 0, 0].map(() => new Uint8Array(end.length));
      for (let run = 0; run < end.length; run++) {
        const first = tShares.byte();
        const second = tShares.byte();
        const third = tShares.byte();
        running[run] = first >> 4;
        waiting[run] = first & 15;
        disk[run] = second >> 4;
        other[run] = second & 15;
        throttled[run] = third >> 4;
        stolen[run] = third & 15;
      }
      threads.set(thread, { end, running, waiting, disk, throttled, stolen, other });
    }
    return { cpus, threads };
  }

  fx.bins = { chunk };
})();
