// Data that programs report in addition to spans: arguments, flows and counters. Unpacked once, after the first frame; pages of traces
// without these do not have this script.

(() => {
  const { trace, units, view } = fx;
  const { lastAt } = fx.unfold;
  const about = trace.told;
  const [operationsLeftOut, argumentsLeftOut, flowsLeftOut, valuesLeftOut] = about.leftOut;
  // The minimum room for each flow arrow in view, in pixels; with more arrows, only those of the selected span are
  // drawn.
  const ARROW_ROOM = 8;
  // The maximum number of flows that are listed for one span.
  const LISTED = 8;
  // The maximum number of earlier spans that are examined to find the innermost one around a time.
  const MOST_LOOKS = 64;
  // The argument key that the page itself uses for an operation: the index of a thread.
  const OWN = "\u0001";
  let lists = null;
  let flows = null;
  let counters = null;
  let loading = null;
  let drawn = 0;
  let hidden = 0;

  async function unpackArguments() {
    const [keyTexts, valueTexts, counts, keys, values] = await fx.blocks.columns(about.arguments);
    const [names, texts] = [keyTexts, valueTexts].map(fx.blocks.texts);
    // Number 0 is the empty list.
    lists = [[]];
    while (counts.more) lists.push(Array.from({ length: counts.number() }, () => [names[keys.number()], texts[values.number()]]));
  }

  async function unpackFlows() {
    const [begins, lengths, from, to, names] = await fx.blocks.columns(about.flows);
    flows = [];
    for (let begin = 0; begins.more; ) {
      begin += begins.number();
      flows.push({ begin, end: begin + lengths.signed(), from: from.number(), to: to.number(), name: names.number(), rows: [null, null] });
    }
  }

  async function unpackCounters() {
    const [kinds, times, integers, doubles] = await fx.blocks.columns(about.counters);
    const bytes = doubles.bytes;
    const view64 = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let at = 0;
    counters = trace.counters.map(({ kept }) => {
      const [time, value] = [new Float64Array(kept), new Float64Array(kept)];
      const isInteger = kinds.byte() === 1;
      let [now, last] = [0, 0];
      for (let place = 0; place < kept; place++) {
        now += times.number();
        time[place] = now;
        if (isInteger) last += integers.signed();
        else {
          last = view64.getFloat64(at, true);
          at += 8;
        }
        value[place] = last;
      }
      return { time, value };
    });
  }

  async function unpack() {
    if (about.arguments !== null) await unpackArguments();
    if (about.flows !== null) await unpackFlows();
    if (about.counters !== null) await unpackCounters();
    view.changed();
  }

  const load = () => (loading ??= unpack());

  function valueAt(index, time) {
    const counter = counters?.[index];
    if (!counter) return null;
    const place = lastAt(counter.time, time);
    return place < 0 ? "not told yet" : `${units.value(counter.value[place])} since ${units.moment(counter.time[place], 1e3)}`;
  }

  // A counter as a step line. Within a pixel, from its lowest to its highest value.
  function line(context, row) {
    const counter = counters?.[row.id];
    if (!counter) return;
    const { lowest, highest } = row.counter;
    const [top, bottom] = [row.y - view.scroll + 5, row.y - view.scroll + row.height - 5];
    // A constant value is a line in the middle.
    const height = (value) => (highest > lowest ? bottom - ((value - lowest) / (highest - lowest)) * (bottom - top) : (top + bottom) / 2);
    const { time, value } = counter;
    let place = Math.max(lastAt(time, view.from), 0);
    const path = new Path2D();
    const area = new Path2D();
    let before = null;
    while (place < time.length && time[place] <= view.to) {
      const x = Math.round(Math.max(view.x(time[place]), -2));
      let [low, high, first, last] = [value[place], value[place], value[place], value[place]];
      for (place += 1; place < time.length && Math.round(view.x(time[place])) <= x; place++) {
        last = value[place];
        low = Math.min(low, last);
        high = Math.max(high, last);
      }
      const end = place < time.length ? Math.round(Math.min(view.x(time[place]), view.width + 2)) : Math.min(view.x(trace.length), view.width + 2);
      if (before === null) path.moveTo(x, height(first));
      else path.lineTo(x, height(before));
      path.lineTo(x, height(low));
      path.lineTo(x, height(high));
      path.lineTo(x, height(last));
      path.lineTo(end, height(last));
      area.rect(x, height(last), Math.max(end - x, 1), bottom - height(last));
      before = last;
    }
    context.fillStyle = fx.colours.get("chart-fill");
    context.fill(area);
    context.strokeStyle = fx.colours.get("chart");
    context.lineWidth = 1.5;
    context.stroke(path);
  }

  // The row of spans with an end of a flow: that of the innermost span there; -1 for the lane itself. Null until the
  // tile is unpacked.
  function spanRow(thread, time) {
    const tile = fx.store.peekTile(trace.tileAt(time));
    if (!tile) return null;
    const list = tile.spans.get(thread) ?? [];
    let place = lastAt(list.map(({ start }) => start), time);
    for (let looks = MOST_LOOKS; place >= 0 && looks > 0; place--, looks--) if (list[place].end >= time) return list[place].depth;
    return -1;
  }

  function endOf(flow, which) {
    const [thread, time] = which === 0 ? [flow.from, flow.begin] : [flow.to, flow.end];
    flow.rows[which] ??= spanRow(thread, time);
    const row = fx.lanes.find("thread", thread);
    if (!row) return null;
    const depth = flow.rows[which] ?? -1;
    const shown = depth >= 0 && depth < row.spanRows;
    const y = shown ? fx.lanes.spanTop(row) + (depth + 0.5) * fx.lanes.SPAN_HEIGHT - 1 : fx.lanes.THREAD_HEIGHT / 2;
    return [view.x(time), row.y - view.scroll + y];
  }

  // Whether an end of a flow is in a span: on its thread, within its time, and in no nested span.
  const isIn = ({ thread, span }, id, time, depth) => id === thread && time >= span.start && time <= span.end && (depth === null || depth === span.depth);

  function ofSpan(selected) {
    if (flows === null || selected?.kind !== "span" || selected.lane.kind === "track") return [];
    const found = [];
    for (const flow of flows) {
      flow.rows[0] ??= flow.from === selected.thread ? spanRow(flow.from, flow.begin) : null;
      flow.rows[1] ??= flow.to === selected.thread ? spanRow(flow.to, flow.end) : null;
      if (isIn(selected, flow.from, flow.begin, flow.rows[0])) found.push({ flow, leaves: true });
      else if (isIn(selected, flow.to, flow.end, flow.rows[1])) found.push({ flow, leaves: false });
    }
    return found;
  }

  function arrow(context, flow, colour) {
    const [from, to] = [endOf(flow, 0), endOf(flow, 1)];
    if (from === null || to === null) return false;
    const bend = Math.min(Math.max((to[0] - from[0]) / 2, 14), 60);
    const body = new Path2D();
    body.moveTo(...from);
    body.bezierCurveTo(from[0] + bend, from[1], to[0] - bend, to[1], to[0] - 4, to[1]);
    const tip = new Path2D();
    tip.moveTo(...to);
    tip.lineTo(to[0] - 7, to[1] - 4);
    tip.lineTo(to[0] - 7, to[1] + 4);
    tip.closePath();
    for (const [ink, width] of [["lane", 4], [colour, 1.5]]) {
      context.strokeStyle = context.fillStyle = fx.colours.get(ink);
      context.lineWidth = width;
      context.stroke(body);
      if (ink !== "lane") context.fill(tip);
    }
    return true;
  }

  function paint(context, rows) {
    for (const row of rows) if (row.kind === "counter") line(context, row);
    drawn = hidden = 0;
    if (flows === null) return;
    const mine = new Set(ofSpan(fx.select.selected()).map(({ flow }) => flow));
    const seen = new Set(rows.filter(({ kind }) => kind === "thread").map(({ id }) => id));
    let inView = flows.filter(({ begin, end, from, to }) => begin <= view.to && end >= view.from && (seen.has(from) || seen.has(to)));
    if (inView.length * ARROW_ROOM > view.width) {
      hidden = inView.length;
      inView = [];
      context.font = `11px ${fx.colours.get("sans")}`;
      context.textBaseline = "bottom";
      context.fillStyle = fx.colours.get("faint");
      const text = `${units.count(hidden)} arrows of flows are not drawn: zoom in, or select a span`;
      context.fillText(text, Math.max(view.width - context.measureText(text).width - 8, 8), view.height - 6);
    }
    for (const flow of inView) if (!mine.has(flow) && arrow(context, flow, "faint")) drawn += 1;
    for (const flow of mine) if (arrow(context, flow, "arrow")) drawn += 1;
  }

  const element = fx.select.element;

  function goTo(thread, time) {
    if (time < view.from || time > view.to) view.show(time - (view.to - view.from) / 2, time + (view.to - view.from) / 2);
    const row = fx.lanes.bring("thread", thread);
    const depth = spanRow(thread, time);
    if (row && depth !== null && depth >= 0) fx.select.pickAt(row, time, fx.lanes.spanTop(row) + (depth + 0.5) * fx.lanes.SPAN_HEIGHT);
    else fx.select.pick("thread", thread, time);
  }

  function button(text, act) {
    const made = element("button", text);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  }

  // Adds the data that programs report about a span to the list of facts.
  async function show(list, selected) {
    await load();
    if (!list.isConnected) return;
    const entry = (key, value) => {
      const place = element("dd", undefined, "told");
      place.append(value);
      list.append(element("dt", key), place);
    };
    const { span } = selected;
    if (span.kind !== fx.unfold.KIND.MANY) {
      if (span.args > 0 && !lists?.[span.args]) entry("arguments", "not in this page");
      for (const [key, value] of lists?.[span.args] ?? []) {
        const thread = key.startsWith(OWN) ? Number(value) : -1;
        if (thread < 0) entry(key, value);
        else entry(key.slice(OWN.length), button(fx.select.threadName(thread), () => goTo(thread, key.includes("ended") ? span.end : span.start)));
      }
    }
    const found = ofSpan(selected);
    for (const { flow, leaves } of found.slice(0, LISTED)) {
      const [thread, time] = leaves ? [flow.to, flow.end] : [flow.from, flow.begin];
      entry(leaves ? "flow to" : "flow from", button(`${fx.select.threadName(thread)} at ${units.moment(time, 1e3)}`, () => goTo(thread, time)));
    }
    if (found.length > LISTED) entry("flows", `${units.count(found.length - LISTED)} more`);
  }

  // The parts that were left out of the page, in words.
  function leftOut() {
    const list = [
      [operationsLeftOut, "events of operations"],
      [argumentsLeftOut, "lists of arguments"],
      [flowsLeftOut, "arrows of flows"],
      [valuesLeftOut, "values of counters"],
    ];
    return list.filter(([count]) => count > 0).map(([count, what]) => `${units.count(count)} ${what} left out for size`);
  }

  fx.told = { load, paint, show, valueAt, leftOut, shown: () => ({ arrows: drawn, hidden, flows: flows?.length ?? 0, counters: counters?.map(({ value }) => [...value.slice(0, 10)]) ?? [] }) };
})();
