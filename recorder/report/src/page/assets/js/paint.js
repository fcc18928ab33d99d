// Draws the lanes in view.
//
// If few events are in view, they are drawn one by one from tiles; otherwise, and until a tile is unpacked, bins of
// the pyramid are drawn. Slices narrower than a pixel are summed up by pixel, so that both look alike: a column whose
// height is the share of time, with running at the bottom and waiting above it.

(() => {
  // The maximum number of tiles that are unfolded at once.
  const MOST_TILES = 16;
  // The level is chosen so that its bins are at most this many pixels wide.
  const BIN_PIXELS = 1.5;
  const FULL = 15;
  const { STATE, KIND } = fx.unfold;
  const view = fx.view;
  const canvas = document.getElementById("canvas");
  const context = canvas.getContext("2d");
  const status = { frames: 0, mode: "none", level: -1, firstFrame: null, rows: 0, drawn: 0, out: 0, tilesAtFirstFrame: null };

  function resize() {
    const box = canvas.parentElement.getBoundingClientRect();
    const scale = devicePixelRatio || 1;
    view.width = Math.max(box.width, 50);
    view.height = Math.max(box.height, 50);
    canvas.width = Math.round(view.width * scale);
    canvas.height = Math.round(view.height * scale);
    canvas.style.width = `${view.width}px`;
    canvas.style.height = `${view.height}px`;
    fx.lanes.fit();
  }

  // Stretches of the time in view, each with the tile or chunk to draw it from.
  function sources() {
    const { trace, store } = fx;
    const first = trace.tileAt(view.from);
    const last = trace.tileAt(view.to);
    const exact = last - first < MOST_TILES;
    const found = [];
    let missing = [];
    // Stretches without exact events in the page, drawn from bins.
    const out = [];
    if (exact) {
      for (let index = last; index >= first; index--) {
        const { from, to, out: isOut } = trace.tiles[index];
        const tile = isOut ? null : store.tile(index);
        if (isOut) out.push([from, to]);
        else if (tile) found.push({ tile, from, to });
        else missing.push([from, to]);
      }
    } else {
      missing = [[view.from, view.to]];
    }
    const fit = trace.levels.findIndex(({ width }) => width <= BIN_PIXELS * view.perPixel());
    const level = fit < 0 ? trace.levels.length - 1 : fit;
    for (const [from, to] of missing) chunks(level, from, to, !exact, found);
    let coming = exact && missing.length > 0;
    for (const [from, to] of out) if (!chunks(level, from, to, true, found)) coming = true;
    status.mode = coming ? "waiting" : exact && out.length <= last - first ? "exact" : "bins";
    status.level = exact && missing.length === 0 && out.length === 0 ? -1 : level;
    status.out = out.length;
    // If all levels are in the page, bins are always fine enough.
    fx.absent.show(out, out.length > 0 || (!exact && fit < 0 && trace.levelsLeftOut > 0), trace.levels[level].width * (level === 0 ? trace.alike : 1));
    return found;
  }

  // The chunks of a level for a stretch of time; if one is not unpacked yet, the best one available. Returns whether
  // all are available.
  function chunks(level, from, to, ask, found) {
    const { trace, store } = fx;
    const { width, chunks: list } = trace.levels[level];
    const length = width * trace.chunk;
    const low = Math.max(from, view.from);
    const high = Math.min(to, view.to);
    const last = Math.min(Math.floor(high / length), list.length - 1);
    let complete = true;
    for (let index = Math.max(Math.floor(low / length), 0); index <= last; index++) {
      const chunk = ask || level === 0 ? store.chunk(level, index) : null;
      const stretch = { from: Math.max(from, index * length), to: Math.min(to, (index + 1) * length) };
      if (chunk) {
        found.push({ chunk, ...stretch });
        continue;
      }
      complete = false;
      if (level > 0) chunks(level - 1, stretch.from, stretch.to, ask && level === 1, found);
    }
    return complete;
  }

  // Rectangles grouped by colour, to be drawn together.
  class Batch {
    constructor() {
      this.byColour = new Map();
      // Drawn above everything else.
      this.above = null;
    }

    over() {
      this.above ??= new Batch();
      return this.above;
    }

    add(colour, x, y, width, height) {
      let list = this.byColour.get(colour);
      if (!list) this.byColour.set(colour, (list = []));
      list.push(x, y, width, height);
    }

    draw() {
      for (const [colour, list] of this.byColour) {
        context.fillStyle = colour;
        for (let at = 0; at < list.length; at += 4) {
          context.fillRect(list[at], list[at + 1], list[at + 2], list[at + 3]);
        }
        status.drawn += list.length / 4;
      }
      this.above?.draw();
    }
  }

  // A stacked column of shares from 0 to 1, from the bottom up. Any share above zero is at least a pixel high.
  function column(batch, x, width, y, height, parts) {
    let bottom = y + height;
    for (const [colour, share] of parts) {
      if (share <= 0) continue;
      const size = Math.min(Math.max(share * height, 1), bottom - y);
      bottom -= size;
      batch.add(colour, x, bottom, width, size);
    }
  }

  const edge = (x) => Math.round(Math.max(-2, Math.min(x, view.width + 2)));

  // Calls `call` for each run of bins in view, with its position and edges.
  function eachRun(chunk, lane, from, to, call) {
    const { end } = lane;
    let low = 0;
    let high = end.length;
    const begin = (Math.max(from, view.from) - chunk.from) / chunk.width;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (end[middle] <= begin) low = middle + 1;
      else high = middle;
    }
    const until = Math.min(to, view.to);
    for (let run = low; run < end.length; run++) {
      const start = chunk.from + (run === 0 ? 0 : end[run - 1]) * chunk.width;
      if (start >= until) break;
      const left = edge(view.x(Math.max(start, from)));
      const right = edge(view.x(Math.min(chunk.from + end[run] * chunk.width, to)));
      call(run, left, Math.max(right - left, 1));
    }
  }

  function cpuBins(batch, { chunk, from, to }, row, y, height) {
    const lane = chunk.cpus.get(row.id);
    if (!lane) return;
    eachRun(chunk, lane, from, to, (run, x, width) => {
      if (lane.known[run] > 0) batch.add(fx.colours.get("idle"), x, y + height - 1, width, 1);
      column(batch, x, width, y, height, [[fx.colours.ofThread(lane.thread[run]), lane.busy[run] / FULL]]);
    });
  }

  function threadBins(batch, { chunk, from, to }, row, y, height) {
    const lane = chunk.threads.get(row.id);
    if (!lane) return;
    const [running, waiting, disk, sleeping, throttled, stolen] = ["running", "waiting", "disk", "sleeping", "throttled", "stolen"].map(fx.colours.get);
    eachRun(chunk, lane, from, to, (run, x, width) => {
      if (lane.other[run] > 0) batch.add(sleeping, x, y + height / 2, width, 1);
      column(batch, x, width, y, height, [
        [stolen, lane.stolen[run] / FULL],
        [running, lane.running[run] / FULL],
        [throttled, lane.throttled[run] / FULL],
        [waiting, lane.waiting[run] / FULL],
        [disk, lane.disk[run] / FULL],
      ]);
    });
  }

  // The text in slices.
  const SHORT = ["", "", "waiting", "preempted", "", "blocked (D)", "", "", "stopped", "traced", "", "", "throttled", "throttled"];

  const LOOKS = ["", "running", "waiting", "waiting", "sleeping", "disk", "sleeping", "sleeping", "stopped", "stopped", "sleeping", "", "throttled", "throttled"];

  // Represents stolen time in sums of narrow slices.
  const STOLEN = -1;

  // The share of a slice that the host took. It is unknown when within the slice this was.
  function share(lane, at) {
    const steal = lane.taken.get(at)?.steal ?? 0;
    return steal > 0 ? Math.min(steal / (lane.end[at] - lane.start[at]), 1) : 0;
  }

  // A strip at the bottom of a slice, with the height of the share that the host took.
  function strip(batch, lane, at, x, y, width, height) {
    const stolen = share(lane, at);
    if (stolen <= 0) return;
    const high = Math.max(stolen * height, 2);
    batch.over().add(fx.colours.get("stolen"), x, y + height - high, width, high);
  }

  // A line across the lane at each time that the thread moved to another queue.
  function moves(batch, { tile, from, to }, thread, y, height) {
    let last = -1;
    for (const { time } of tile.moves.get(thread) ?? []) {
      const x = edge(view.x(time));
      if (time < Math.max(from, view.from) || time > Math.min(to, view.to) || x === last) continue;
      batch.over().add(fx.colours.get("moved"), x - 1, y, 2, height);
      last = x;
    }
  }

  // The slices of a lane in view: wide ones through `wide`, with whether they
  // begin and end here or were cut by a tile; narrow ones summed up by pixel
  // through `narrow`.
  function eachSlice(lane, from, to, wide, narrow) {
    const perPixel = view.perPixel();
    const until = Math.min(to, view.to);
    const begin = Math.max(from, view.from);
    let pixel = -1;
    let sums = new Map();
    const flush = () => {
      if (sums.size > 0) narrow(pixel, sums);
      sums = new Map();
    };
    for (let at = Math.max(lane.after(begin) - 1, 0); at < lane.start.length; at++) {
      const start = Math.max(lane.start[at], begin);
      if (lane.start[at] >= until) break;
      const end = Math.min(lane.end[at], until);
      if (end <= start) continue;
      const left = view.x(start);
      if (end - start >= perPixel) {
        const x = edge(left);
        flush();
        const begins = lane.start[at] >= from || from <= view.from;
        const right = edge(view.x(end));
        // A line of background separates it from the next one.
        const gap = lane.end[at] < to && right - x > 3 ? 1 : 0;
        wide(at, x, Math.max(right - x - gap, 1), begins);
      } else {
        const here = Math.floor(left);
        if (here !== pixel) flush();
        pixel = here;
        const what = lane.what[at];
        const part = (end - start) / perPixel;
        const stolen = part * share(lane, at);
        sums.set(what, (sums.get(what) ?? 0) + part - stolen);
        if (stolen > 0) sums.set(STOLEN, (sums.get(STOLEN) ?? 0) + stolen);
      }
    }
    flush();
  }

  function cpuSlices(batch, texts, { tile, from, to }, row, y, height) {
    const lane = tile.cpus.get(row.id);
    if (!lane) return;
    const idle = fx.colours.get("idle");
    eachSlice(
      lane,
      from,
      to,
      (at, x, width, begins) => {
        const thread = lane.what[at];
        if (thread === 0) {
          batch.add(idle, x, y + height - 1, width, 1);
          return;
        }
        batch.add(fx.colours.ofThread(thread), x, y, width, height);
        strip(batch, lane, at, x, y, width, height);
        if (begins && width > 30) texts.push([fx.trace.threads[thread].name, x, y, width, height, "on-hue"]);
      },
      (x, sums) => {
        let most = 0;
        let busy = 0;
        for (const [thread, share] of sums) {
          if (thread === 0) continue;
          busy += share;
          if (thread === STOLEN) continue;
          if (most === 0 || share > sums.get(most)) most = thread;
        }
        column(batch, x, 1, y, height, [[fx.colours.ofThread(most), busy]]);
      },
    );
  }

  function threadSlices(batch, texts, { tile, from, to }, row, y, height) {
    const lane = tile.threads.get(row.id);
    if (!lane) return;
    eachSlice(
      lane,
      from,
      to,
      (at, x, width, begins) => {
        const state = lane.what[at];
        const look = LOOKS[state];
        if (!look) return;
        if (look === "sleeping") {
          batch.add(fx.colours.get(look), x, y + height / 2, width, 1);
          return;
        }
        batch.add(fx.colours.get(look), x, y, width, height);
        strip(batch, lane, at, x, y, width, height);
        if (begins && width > 44) {
          const text = state === STATE.RUNNING ? `CPU ${lane.cpu[at]}` : SHORT[state];
          texts.push([text, x, y, width, height, "on-state"]);
        }
      },
      (x, sums) => {
        const share = (...states) => states.reduce((sum, state) => sum + (sums.get(state) ?? 0), 0);
        column(batch, x, 1, y, height, [
          [fx.colours.get("stolen"), share(STOLEN)],
          [fx.colours.get("running"), share(STATE.RUNNING)],
          [fx.colours.get("throttled"), share(STATE.THROTTLED, STATE.WOKEN_THROTTLED)],
          [fx.colours.get("waiting"), share(STATE.WOKEN, STATE.PREEMPTED)],
          [fx.colours.get("disk"), share(STATE.DISK)],
        ]);
      },
    );
    moves(batch, { tile, from, to }, row.id, y, height);
  }

  // A line below each wait in a function that matches the search.
  function marks(batch, row, y) {
    let last = -1;
    fx.stacks?.eachMarked(row.id, view.from, view.to, (begin, end) => {
      const [x, right] = [edge(view.x(begin)), edge(view.x(end))];
      if (right <= last) return;
      last = Math.max(right, x + 2);
      batch.over().add(fx.colours.get("accent"), x, y, last - x, 3);
    });
  }

  function spans(batch, texts, source, row, y) {
    const list = (source.tile ?? source.chunk).spans.get(row.id);
    if (!list) return;
    const height = fx.lanes.SPAN_HEIGHT - 2;
    for (const span of list) {
      if (span.depth >= row.spanRows) continue;
      const start = Math.max(span.start, source.from, view.from);
      const end = Math.min(span.end, source.to, view.to);
      if (end < start || (span.kind === KIND.INSTANT && span.start < source.from)) continue;
      const x = edge(view.x(start));
      const top = y + span.depth * fx.lanes.SPAN_HEIGHT;
      const width = Math.max(edge(view.x(end)) - x, span.kind === KIND.INSTANT ? 2 : 1);
      const colour = span.kind === KIND.MANY ? "span-many" : `hue-${(span.name * 5 + 2) % 12}`;
      batch.add(fx.colours.get(colour), x, top, width > 3 ? width - 1 : width, height);
      if (width > 26) {
        const text = span.kind === KIND.MANY ? `${span.count} × ${fx.trace.names[span.name]} …` : fx.trace.names[span.name];
        texts.push([text, x, top, width, height, "on-hue"]);
      }
    }
  }

  function drawTexts(texts) {
    context.font = `11px ${fx.colours.get("sans")}`;
    context.textBaseline = "middle";
    for (const [text, x, y, width, height, colour] of texts) {
      const room = Math.floor((width - 8) / 6.2);
      if (room < 2) continue;
      context.fillStyle = fx.colours.get(colour);
      context.fillText(text.length > room ? `${text.slice(0, room - 1)}…` : text, Math.max(x, 0) + 4, y + height / 2 + 0.5);
    }
  }

  function gaps(rows) {
    for (const gap of fx.trace.gaps) {
      if (gap.to < view.from || gap.from > view.to) continue;
      const x = edge(view.x(gap.from));
      const width = Math.max(edge(view.x(gap.to)) - x, 4);
      for (const row of rows) {
        if (row.kind !== "thread" && (row.kind !== "cpu" || row.id !== gap.cpu)) continue;
        const y = row.y - view.scroll;
        if (row.kind === "cpu") {
          context.fillStyle = fx.colours.get("gap");
          context.fillRect(x, y + 2, width, row.height - 4);
        }
        context.fillStyle = fx.colours.hatch(context, row.kind === "cpu" ? "gap-line" : "gap-faint");
        context.fillRect(x, y + 2, width, row.height - 4);
      }
    }
  }

  function background(rows) {
    context.fillStyle = fx.colours.get("lane");
    context.fillRect(0, 0, view.width, view.height);
    for (const row of rows) {
      const y = row.y - view.scroll;
      const chosen = fx.lanes.current()?.place === row.place;
      context.fillStyle = fx.colours.get(row.kind === "header" ? "header" : chosen ? "lane-current" : row.place % 2 ? "lane" : "lane-odd");
      context.fillRect(0, y, view.width, row.height);
    }
  }

  function paint() {
    const scale = devicePixelRatio || 1;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    fx.store.forget();
    const rows = fx.lanes.visible();
    const found = sources();
    const batch = new Batch();
    const texts = [];
    status.drawn = 0;
    background(rows);
    fx.ruler.grid(context, view.height);
    for (const row of rows) {
      if (row.kind === "header" || row.kind === "counter") continue;
      const y = row.y - view.scroll + 3;
      const height = (row.kind === "cpu" ? row.height : fx.lanes.THREAD_HEIGHT) - 6;
      for (const source of found) {
        if (row.spanRows > 0) spans(batch, texts, source, row, row.y - view.scroll + fx.lanes.spanTop(row));
        if (row.kind === "track") continue;
        const draw = row.kind === "cpu" ? (source.tile ? cpuSlices.bind(null, batch, texts) : cpuBins.bind(null, batch)) : source.tile ? threadSlices.bind(null, batch, texts) : threadBins.bind(null, batch);
        draw(source, row, y, height);
      }
      if (row.kind === "thread") marks(batch, row, y + height - 1);
    }
    batch.draw();
    drawTexts(texts);
    gaps(rows);
    fx.absent.paint(context, rows);
    fx.told?.paint(context, rows);
    fx.select.paint(context, rows);
    fx.lanes.place(rows);
    status.rows = rows.length;
    status.frames += 1;
    if (status.firstFrame === null && status.drawn > 0) {
      status.firstFrame = performance.now();
      status.tilesAtFirstFrame = fx.store.tilesUnfolded();
      performance.mark("fxtrec-first-frame");
    }
  }

  fx.paint = { paint, resize, status, canvas };
})();
