// The selection: a slice of a lane, or a span. Its details, and arrows for the wakeup that led to it and for the wakeups that it caused.

(() => {
  const { STATE, KIND } = fx.unfold;
  const NAMES = ["unknown", "running", "woken, waiting for a CPU", "preempted, waiting for a CPU", "sleeping", "blocked (uninterruptible)", "idle", "parked", "stopped", "traced", "exited", "dead", "throttled (its cgroup's quota is used up)", "woken, throttled (its cgroup's quota is used up)"];
  // The maximum number of tiles that are searched for the wakeups of a slice.
  const FAR = 64;
  // The maximum number of arrows for the wakeups of one slice.
  const MOST_ARROWS = 60;
  // The maximum number of moves that are listed for one slice.
  const MOST_MOVES = 4;
  // The maximum number of parts of one wait that are examined.
  const MOST_PARTS = 32;
  const { trace, view } = fx;
  const panel = document.getElementById("selection");
  const announcer = document.getElementById("announce");
  let selected = null;
  let request = 0;

  const lanesOf = (tile, kind) => (kind === "cpu" ? tile.cpus : tile.threads);

  // The slice of a lane at a time, with its true begin and end. Null if unknown, or not in this page.
  async function slice(kind, id, time) {
    const { kept, tiles } = trace;
    // Each tile has the start of its first slices, even if earlier tiles are not in the page.
    const place = trace.keptFrom(trace.tileAt(time));
    if (place === kept.length) return null;
    const tile = await fx.store.loadTile(kept[place]);
    const lane = lanesOf(tile, kind).get(id);
    const at = lane ? lane.at(Math.max(time, tile.from)) : -1;
    if (at < 0 || lane.start[at] > time) return null;
    const found = { kind, id, start: lane.start[at], end: lane.end[at], what: lane.what[at], cpu: lane.cpu[at], waker: lane.waker[at], taken: lane.taken.get(at) ?? null, endKnown: true };
    // Later tiles have its begin, too, so the last one is found by bisection.
    const goesOn = async (tile) => {
      const begin = tiles[kept[tile]].from;
      const next = lanesOf(await fx.store.loadTile(kept[tile]), kind).get(id);
      const same = next ? next.at(begin) : -1;
      const is = same >= 0 && next.start[same] === found.start && next.what[same] === found.what;
      return is ? next.end[same] : null;
    };
    let last = place;
    let behind = kept.length;
    for (let step = 1; found.end === tiles[kept[last]].to && last + 1 < behind; ) {
      const tile = Math.min(last + step, behind - 1);
      const end = await goesOn(tile);
      if (end === null) {
        behind = tile;
        step = Math.max(1, (behind - last) >> 1);
      } else {
        last = tile;
        found.end = end;
        found.taken = await takenOf(kept[tile], kind, id, end);
        step = behind === kept.length ? step * 2 : Math.max(1, (behind - last) >> 1);
      }
    }
    if (found.end >= trace.length) found.endKnown = false;
    // The next tile is not in the page, so it is unknown how long the slice continues there.
    else if (found.end === tiles[kept[last]].to && tiles[kept[last] + 1].out) [found.endKnown, found.endOut] = [false, true];
    return found;
  }

  // The time that was taken from the slice, if it ends at this time in the tile.
  async function takenOf(tile, kind, id, end) {
    const lane = lanesOf(await fx.store.loadTile(tile), kind).get(id);
    return lane?.taken.get(lane.at(end - 1)) ?? null;
  }

  // The wakeup at the start of a slice, or at the start of the wait before it.
  async function wakeOf(thread, start, state) {
    let time = start;
    let now = state;
    for (let steps = 4; steps > 0; steps--) {
      if (now === STATE.WOKEN || now === STATE.WOKEN_THROTTLED) {
        const found = await slice("thread", thread, time);
        return found && { ...(await waitTo(thread, found)), waited: undefined };
      }
      if (now !== STATE.RUNNING || time <= 0) return null;
      const before = await slice("thread", thread, time - 1);
      if (before === null || before.end !== time) return null;
      if (before.what !== STATE.WOKEN && before.what !== STATE.WOKEN_THROTTLED) return null;
      return waitTo(thread, before);
    }
    return null;
  }

  // The whole wait to which a slice belongs; it is divided if a quota held the thread back.
  async function waitTo(thread, last) {
    let first = last;
    let waited = 0;
    let throttled = 0;
    for (let steps = MOST_PARTS; steps > 0; steps--) {
      const length = first.end - first.start;
      if (first.what === STATE.WOKEN) waited += length;
      else throttled += length;
      const before = first.start > 0 ? await slice("thread", thread, first.start - 1) : null;
      const isPart = before !== null && before.end === first.start && (before.what === STATE.WOKEN || before.what === STATE.WOKEN_THROTTLED);
      if (!isPart) {
        if (before === null && first.start > 0 && trace.isOut(first.start - 1) && trace.causes.includes("throttled")) waited = undefined;
        break;
      }
      first = before;
    }
    return { time: first.start, waker: first.waker, cpu: first.cpu, waited, throttled };
  }

  // The wakeups by a thread in a stretch of time, and whether the list is complete.
  async function wakesBy(thread, from, to) {
    const found = [];
    const [first, last] = [trace.tileAt(from), trace.tileAt(to)];
    let index = first;
    let missing = false;
    for (; index <= last && index < first + FAR && found.length <= MOST_ARROWS; index++) {
      missing ||= trace.tiles[index].out;
      const { wakes } = await fx.store.loadTile(index);
      for (let at = 0; at < wakes.time.length; at++) {
        const time = wakes.time[at];
        if (wakes.waker[at] === thread && time >= from && time <= to) found.push({ time, from: thread, to: wakes.thread[at] });
      }
    }
    return { arrows: found.slice(0, MOST_ARROWS), all: !missing && index > last && found.length <= MOST_ARROWS };
  }

  // The moves of a thread between queues in a stretch of time, and whether the list is complete.
  async function movesOf(thread, from, to) {
    const found = [];
    const [first, last] = [trace.tileAt(from), trace.tileAt(to)];
    let index = trace.moves === 0 ? last + 1 : first;
    let missing = false;
    for (; index <= last && index < first + FAR; index++) {
      missing ||= trace.tiles[index].out;
      const { moves } = await fx.store.loadTile(index);
      found.push(...(moves.get(thread) ?? []).filter(({ time }) => time >= from && time <= to));
    }
    return { found, all: !missing && index > last, missing };
  }

  // Selects the slice at a time. Resolves to whether it exists.
  async function pick(kind, id, time) {
    const mine = ++request;
    let found = await slice(kind, id, time);
    if (mine !== request) return false;
    if (!found && trace.isOut(time)) return pickAbsent(kind, id, time);
    if (!found) {
      clear();
      return false;
    }
    // The state of a CPU is that of its thread.
    const cpu = kind === "cpu" ? id : found.cpu;
    if (kind === "cpu" && found.what !== 0) {
      const same = await slice("thread", found.what, time);
      if (same && same.what === STATE.RUNNING) found = { ...same, cpu };
    }
    const thread = found.kind === "thread" ? found.id : found.what;
    const state = found.kind === "thread" ? found.what : STATE.RUNNING;
    const arrows = [];
    let wake = null;
    let allArrows = true;
    let moves = { found: [], all: true };
    if (thread !== 0) {
      wake = await wakeOf(thread, found.start, state);
      if (wake && wake.waker >= 0) arrows.push({ time: wake.time, from: wake.waker, to: thread });
      if (state === STATE.RUNNING) {
        const woke = await wakesBy(thread, found.start, found.end);
        arrows.push(...woke.arrows);
        allArrows = woke.all;
      }
      // For a running thread, those of the preceding wait.
      if (state !== STATE.RUNNING) moves = await movesOf(thread, found.start, found.end);
      else if (wake) moves = await movesOf(thread, wake.time, found.start);
    }
    if (mine !== request) return false;
    selected = { kind: "slice", lane: { kind, id }, thread, state, cpu, start: found.start, end: found.end, endKnown: found.endKnown, endOut: found.endOut ?? false, taken: found.taken, wake, arrows, allArrows, moves };
    show();
    return true;
  }

  // Selects the stretch around a time for which this page has no exact events.
  function pickAbsent(kind, id, time) {
    request += 1;
    const { from, to } = trace.outAround(trace.tileAt(time));
    selected = { kind: "absent", lane: { kind, id }, thread: kind === "thread" ? id : 0, at: time, start: from, end: to, arrows: [] };
    show();
    return true;
  }

  // Selects a stretch of time, of a thread if one is given.
  function pickRange(thread, from, to) {
    request += 1;
    const start = Math.max(0, Math.round(Math.min(from, to)));
    const end = Math.min(trace.length, Math.round(Math.max(from, to)));
    selected = { kind: "range", lane: { kind: "thread", id: thread }, thread, start, end, arrows: [] };
    show();
  }

  // Selects the span of a thread, or of a track, with this begin and end. Resolves to whether it exists.
  async function pickSpanAt(lane, from, to) {
    const tile = await fx.store.loadTile(trace.tileAt(from));
    const span = (tile.spans.get(lane) ?? []).find(({ start, end }) => start === from && end === to);
    if (span) pickSpan(lane, span);
    else if (tile.out) return pickAbsent(lane < trace.threads.length ? "thread" : "track", lane, from);
    return span !== undefined;
  }

  // Whether an explanation is useful: a running thread needs none.
  function hasReason() {
    const { kind, thread, state, span, start, end } = selected;
    if (thread === 0 || start >= end || kind === "absent") return false;
    if (kind === "span") return span.kind === KIND.WHOLE;
    return kind === "range" || (state !== STATE.RUNNING && state !== STATE.UNKNOWN && state < 8) || fx.unfold.isThrottled(state);
  }

  // Spans across threads belong to no thread.
  function pickSpan(lane, span) {
    request += 1;
    const isTrack = lane >= trace.threads.length;
    selected = { kind: "span", lane: { kind: isTrack ? "track" : "thread", id: lane }, thread: isTrack ? 0 : lane, span, start: span.start, end: span.end, arrows: [] };
    show();
  }

  function clear() {
    request += 1;
    selected = null;
    show();
  }

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function threadName(index) {
    const thread = trace.threads[index];
    return index === 0 ? "idle" : `${thread.name} ${thread.tid}`;
  }

  function button(text, act) {
    const made = element("button", text);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  }

  // The time that the host and interrupts took, and how late it ended, if recorded.
  function takenFacts(facts) {
    const { units } = fx;
    const tells = (cause) => trace.causes.includes(cause) && selected.endKnown;
    const { steal = 0, irq = 0, irqs = 0, asked = -1 } = selected.taken ?? {};
    if (tells("steal")) facts.push(["taken by the host", steal > 0 ? units.time(steal) : "nothing"]);
    if (tells("irq")) facts.push(["taken by interrupts", irqs > 0 || irq > 0 ? `${units.time(irq)}, ${units.count(irqs)} of them` : "nothing"]);
    if (asked >= 0) facts.push(["asked to leave", `${units.time(asked)} before`]);
  }

  function sliceFacts(facts) {
    const { units } = fx;
    const { thread, state, cpu, wake } = selected;
    facts.push(["state", thread === 0 ? "idle" : NAMES[state]]);
    if (cpu >= 0 && (state === STATE.RUNNING || thread === 0)) facts.push(["CPU", cpu]);
    if (wake) {
      facts.push(["woken by", wake.waker >= 0 ? threadName(wake.waker) : "unknown (an interrupt)"]);
      facts.push(["woken at", units.moment(wake.time, 1)]);
      if (wake.waited !== undefined) facts.push(["waited for a CPU", units.time(wake.waited)]);
      if (wake.waited !== undefined && wake.throttled > 0) facts.push(["throttled before", units.time(wake.throttled)]);
    } else if ((state === STATE.RUNNING || state === STATE.WOKEN) && thread !== 0 && selected.start > 0 && trace.isOut(selected.start - 1)) {
      facts.push(["woken by", "not in this page"]);
    }
    const { found, all } = selected.moves;
    for (const { time, from, to } of found.slice(0, MOST_MOVES)) {
      facts.push(["moved", `CPU ${from} to ${to} at ${units.moment(time, 1)}`]);
    }
    const more = Math.max(found.length - MOST_MOVES, 0);
    if (more > 0 || !all) facts.push(["moved", all ? `${units.counted(more, "time", "times")} more` : "perhaps more often"]);
    if (state === STATE.RUNNING && thread !== 0) {
      takenFacts(facts);
      const woke = selected.arrows.filter((arrow) => arrow.from === thread).length;
      facts.push(["woke", selected.allArrows ? woke || "nobody" : `${woke} or more`]);
    }
  }

  function show() {
    panel.replaceChildren();
    fx.why.clear();
    if (!selected) {
      panel.append(element("p", "Click a slice, or press Enter on a lane.", "hint"));
      view.changed();
      return;
    }
    const { units } = fx;
    const { start, end, thread } = selected;
    const title = selected.kind === "span" ? trace.names[selected.span.name] : selected.kind === "range" && thread === 0 ? "Range" : selected.kind === "absent" && thread === 0 ? "Not in this page" : threadName(thread);
    const heading = element("h3", title);
    const facts = [];
    if (selected.kind === "span") {
      const track = trace.tracks[selected.lane.id - trace.threads.length];
      facts.push(track ? ["operation of", track.category] : ["on", threadName(thread)]);
      if (selected.span.kind === KIND.MANY) facts.push(["spans", units.count(selected.span.count)]);
      if (selected.span.kind === KIND.OPEN) facts.push(["end", "not in the trace"]);
    } else if (selected.kind === "slice") {
      sliceFacts(facts);
      if (selected.endOut) facts.push(["end", "not in this page"]);
    } else if (selected.kind === "absent") {
      facts.push(["events", `not in this page: for its size it has those of ${fx.absent.share()} tiles`]);
    }
    facts.push(["from", units.moment(start, 1)]);
    if (selected.span?.kind !== KIND.INSTANT) facts.push(["length", `${selected.endKnown === false ? "at least " : ""}${units.time(end - start)}`]);
    const clock = trace.clock(start);
    if (clock) facts.push(["time of day", `${clock.hours}.${clock.nanos}`]);
    const list = element("dl");
    for (const [name, value] of facts) list.append(element("dt", name), element("dd", String(value)));
    if (fx.told && selected.kind === "span") fx.told.show(list, selected);
    const actions = element("div", undefined, "actions");
    if (selected.kind === "absent") {
      const near = Math.min(end - start, view.to - view.from) / 2;
      const at = Math.max(start + near, Math.min(selected.at, end - near));
      list.append(element("dt", "to see them"), element("dd", trace.commandFor(at - near, at + near), "command"));
    }
    actions.append(button("Zoom to selection", () => view.around(start, end)));
    if (thread !== 0) {
      actions.append(button("Show thread", () => fx.lanes.bring("thread", thread)));
      actions.append(button(fx.lanes.isPinned(thread) ? "Unpin thread" : "Pin thread", () => (fx.lanes.pin(thread), show())));
    }
    const waker = selected.wake?.waker ?? -1;
    if (waker > 0) {
      const { time } = selected.wake;
      actions.append(button("Go to waker", () => goTo(waker, time)));
    }
    panel.append(heading, list, actions);
    if (fx.stacks && selected.kind === "slice" && thread !== 0) {
      const box = element("div", undefined, "stacks");
      panel.append(box);
      fx.stacks.show(box, selected);
    }
    if (hasReason()) {
      const box = element("div", undefined, "why");
      panel.append(box);
      fx.why.show(box, thread, start, end);
    }
    announcer.textContent = `${title}: ${facts.map(([name, value]) => `${name} ${value}`).join(", ")}`;
    view.changed();
  }

  // Selects the state of a thread at a time, and scrolls it into view.
  async function goTo(thread, time) {
    if (time < view.from || time > view.to) view.show(time - (view.to - view.from) / 2, time + (view.to - view.from) / 2);
    fx.lanes.bring("thread", thread);
    return pick("thread", thread, time);
  }

  // Selects the previous or the next slice of the lane.
  async function step(direction) {
    if (!selected || selected.lane.kind === "track") return;
    const { lane } = selected;
    const time = direction > 0 ? selected.end : selected.start - 1;
    if (time < 0 || time >= trace.length || !(await pick(lane.kind, lane.id, time)) || !selected) return;
    const { start, end } = selected;
    if (end < view.from || start > view.to) view.show(start - (view.to - view.from) / 2, start + (view.to - view.from) / 2);
  }

  function middleOf(kind, id) {
    const row = fx.lanes.find(kind, id);
    if (!row) return null;
    return row.y - view.scroll + (kind === "thread" ? fx.lanes.THREAD_HEIGHT : row.height) / 2;
  }

  function outline(context, row, height, top = 1) {
    const left = Math.max(view.x(selected.start), -4);
    const right = Math.min(Math.max(view.x(selected.end), left + 2), view.width + 4);
    context.strokeStyle = fx.colours.get("accent");
    context.lineWidth = 2;
    context.strokeRect(left, row.y - view.scroll + top, right - left, height);
  }

  function arrow(context, { time, from, to }) {
    const start = middleOf("thread", from);
    const end = middleOf("thread", to);
    if (start === null || end === null) return;
    const x = view.x(time);
    if (x < -20 || x > view.width + 20) return;
    const down = end > start ? 1 : -1;
    const tip = end - down * 3;
    const body = new Path2D();
    body.moveTo(x, start);
    body.bezierCurveTo(x + 12, start + (tip - start) * 0.3, x + 12, start + (tip - start) * 0.7, x, tip - down * 6);
    const ends = new Path2D();
    ends.arc(x, start, 3.5, 0, 2 * Math.PI);
    ends.moveTo(x, tip);
    ends.lineTo(x - 5, tip - down * 9);
    ends.lineTo(x + 5, tip - down * 9);
    ends.closePath();
    // An outline in the background colour separates it from lanes that it crosses.
    context.lineJoin = "round";
    for (const [colour, width] of [
      ["lane", 5],
      ["arrow", 2],
    ]) {
      context.strokeStyle = context.fillStyle = fx.colours.get(colour);
      context.lineWidth = width;
      context.stroke(body);
      if (colour === "lane") context.stroke(ends);
      context.fill(ends);
    }
  }

  function paint(context) {
    if (!selected) return;
    const { lane } = selected;
    const row = selected.kind === "span" ? fx.lanes.find(lane.kind, lane.id) : fx.lanes.find("thread", selected.thread);
    if (selected.kind === "range" || selected.kind === "absent") {
      const [left, right] = [Math.max(view.x(selected.start), -4), Math.min(view.x(selected.end), view.width + 4)];
      context.fillStyle = fx.colours.get("shade");
      context.fillRect(left, 0, right - left, view.height);
    }
    fx.why.paint(context);
    if (selected.kind === "span") {
      if (row) outline(context, row, fx.lanes.SPAN_HEIGHT, fx.lanes.spanTop(row) - 1 + selected.span.depth * fx.lanes.SPAN_HEIGHT);
      return;
    }
    if (row && selected.thread !== 0) outline(context, row, fx.lanes.THREAD_HEIGHT - 2);
    if (selected.kind === "range" || selected.kind === "absent") return;
    const cpuRow = selected.state === STATE.RUNNING ? fx.lanes.find("cpu", selected.cpu) : null;
    if (cpuRow) outline(context, cpuRow, cpuRow.height - 2);
    for (const one of selected.arrows) arrow(context, one);
  }

  // A line of text about a position of the canvas, if its data is unpacked.
  function describe(row, time, y) {
    if (row.kind === "counter") return fx.told?.valueAt(row.id, time) ?? null;
    if (row.kind !== "header" && trace.isOut(time)) return "its exact events are not in this page";
    const tile = fx.store.peekTile(trace.tileAt(time));
    if (!tile || row.kind === "header") return null;
    const span = spanAt(tile, row, time, y);
    if (span) return `${trace.names[span.name]}, ${fx.units.time(span.end - span.start)}`;
    if (row.kind === "track") return null;
    const lane = lanesOf(tile, row.kind).get(row.id);
    const at = lane ? lane.at(time) : -1;
    if (at < 0) return "unknown";
    const length = fx.units.time(lane.end[at] - lane.start[at]);
    const mark = row.kind === "cpu" && tile.inferred.has(`${row.id}@${lane.start[at]}`) ? ", inferred begin" : "";
    if (row.kind === "cpu") return `${threadName(lane.what[at])}, ${length}${mark}`;
    const near = (tile.moves.get(row.id) ?? []).find((move) => Math.abs(move.time - time) <= 2 * view.perPixel());
    const moved = near ? `, moved from CPU ${near.from} to ${near.to}` : "";
    const where = fx.stacks?.hint(row.id, lane.start[at]) ?? "";
    return `${NAMES[lane.what[at]]}${where}, ${length}${moved}`;
  }

  // The span at a place of a thread's row, `y` pixels from its top.
  function spanAt(tile, row, time, y) {
    if (!row.spanRows) return null;
    const depth = Math.floor((y - fx.lanes.spanTop(row) + 1) / fx.lanes.SPAN_HEIGHT);
    const near = view.perPixel() * 3;
    const fits = (span) => span.depth === depth && span.start - near <= time && time <= span.end + near;
    return depth < 0 ? null : ((tile.spans.get(row.id) ?? []).filter(fits).at(-1) ?? null);
  }

  // Selects the item at a position of the canvas. Resolves to true if there is one.
  async function pickAt(row, time, y) {
    if (row.kind === "counter" || row.kind === "header") return false;
    const isSpan = row.kind === "track" || (row.spanRows && y > fx.lanes.spanTop(row) - 1);
    if (isSpan && trace.isOut(time)) return pickAbsent(row.kind, row.id, time);
    if (row.spanRows && y > fx.lanes.spanTop(row) - 1) {
      const span = spanAt(await fx.store.loadTile(trace.tileAt(time)), row, time, y);
      if (span) pickSpan(row.id, span);
      return span !== null;
    }
    if (row.kind === "track") return false;
    return pick(row.kind, row.id, time);
  }

  fx.select = { NAMES, slice, movesOf, pick, pickAt, pickRange, pickSpanAt, clear, goTo, step, paint, describe, element, threadName, show, selected: () => selected };
})();
