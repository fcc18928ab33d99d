// Lanes: their list, order, positions and labels. Labels exist only for lanes in view.

(() => {
  const CPU_HEIGHT = 22;
  const THREAD_HEIGHT = 22;
  const SPAN_HEIGHT = 15;
  const HEADER_HEIGHT = 26;
  const MOST_SPAN_ROWS = 12;
  const COUNTER_HEIGHT = 40;
  const view = fx.view;
  const area = document.getElementById("lanes");
  const gutter = document.getElementById("gutter");
  const filler = document.getElementById("filler");
  const open = { cpus: true, counters: true, operations: true, pins: true, threads: true };
  // Threads that stay at the top regardless of the search, in the order in which they were pinned.
  const pinned = new Set();
  const labels = new Map();
  let filter = "";
  let order = "running";
  let rows = [];
  let byLane = new Map();
  let total = 0;
  let current = null;

  const ORDERS = {
    running: (a, b) => b.running - a.running,
    waiting: (a, b) => b.waiting - a.waiting,
    longest: (a, b) => b.longest - a.longest,
    name: (a, b) => a.name.localeCompare(b.name) || a.tid - b.tid,
    tid: (a, b) => a.tid - b.tid,
  };

  const fits = (thread) => isNamed(thread) || (fx.stacks?.has(thread.index) ?? false);

  // Whether the name of a thread, track or counter matches the search.
  function isNamed({ name, processName = "", tid, pid }) {
    if (!filter) return true;
    return (tid !== undefined && [tid, pid].map(String).includes(filter)) || [name, processName].some((text) => text.toLowerCase().includes(filter));
  }

  function listed() {
    return fx.trace.threads.filter((thread) => thread.index !== 0 && !pinned.has(thread.index) && fits(thread)).sort(ORDERS[order] ?? ORDERS.running);
  }

  // How many pixels below the top of a row its spans begin.
  const spanTop = ({ kind }) => (kind === "track" ? 3 : THREAD_HEIGHT - 1);

  function build() {
    rows = [];
    byLane = new Map();
    total = 0;
    const add = (row, height) => {
      const placed = { ...row, y: total, height, place: rows.length };
      rows.push(placed);
      byLane.set(`${row.kind} ${row.id}`, placed);
      total += height;
    };
    const threads = listed();
    const { cpus } = fx.trace;
    if (cpus.length > 0) {
      add({ kind: "header", id: "cpus", title: `CPUs (${cpus.length})` }, HEADER_HEIGHT);
      if (open.cpus) for (const cpu of cpus) add({ kind: "cpu", id: cpu.number, cpu }, CPU_HEIGHT);
    }
    const { counters, tracks } = fx.trace;
    const group = (id, title, all, addOne) => {
      const some = all.filter(isNamed);
      if (some.length === 0) return;
      add({ kind: "header", id, title: `${title} (${filter ? `${some.length} of ` : ""}${all.length})` }, HEADER_HEIGHT);
      if (open[id]) some.forEach(addOne);
    };
    group("counters", "Counters", counters, (counter) => add({ kind: "counter", id: counter.index, counter }, COUNTER_HEIGHT));
    group("operations", "Operations", tracks, (track) => {
      const spanRows = Math.min(track.rows, MOST_SPAN_ROWS);
      add({ kind: "track", id: track.index, track, spanRows }, spanTop({ kind: "track" }) + spanRows * SPAN_HEIGHT + 3);
    });
    const addThread = (thread) => {
      const spanRows = Math.min(thread.rows, MOST_SPAN_ROWS);
      add({ kind: "thread", id: thread.index, thread, spanRows }, THREAD_HEIGHT + spanRows * SPAN_HEIGHT);
    };
    if (pinned.size > 0) {
      add({ kind: "header", id: "pins", title: `Pinned (${pinned.size})` }, HEADER_HEIGHT);
      if (open.pins) for (const index of pinned) addThread(fx.trace.threads[index]);
    }
    const of = filter ? `${threads.length} of ${fx.trace.threads.length - 1}` : threads.length;
    add({ kind: "header", id: "threads", title: `Threads (${of})` }, HEADER_HEIGHT);
    if (open.threads) threads.forEach(addThread);
    for (const label of labels.values()) label.remove();
    labels.clear();
    fit();
    return threads.length;
  }

  // Sets the scroll height to that of all rows; the drawing itself stays in view, with the height of the area.
  function fit() {
    filler.style.height = `${Math.max(total - view.height, 0)}px`;
    scrollTo(view.scroll);
  }

  // The rows in view.
  function visible() {
    const first = rowAt(view.scroll);
    const found = [];
    for (let place = Math.max(first, 0); place < rows.length; place++) {
      if (rows[place].y >= view.scroll + view.height) break;
      found.push(rows[place]);
    }
    return found;
  }

  // The index of the row at a height, relative to the top of all rows.
  function rowAt(y) {
    let low = 0;
    let high = rows.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (rows[middle].y <= y) low = middle;
      else high = middle - 1;
    }
    return y < total ? low : -1;
  }

  function scrollTo(y) {
    view.scroll = Math.max(0, Math.min(y, total - view.height));
    if (Math.abs(area.scrollTop - view.scroll) > 1) area.scrollTop = view.scroll;
    view.changed();
  }

  function find(kind, id) {
    return byLane.get(`${kind} ${id}`) ?? null;
  }

  // Scrolls a row into view, and makes it the current one.
  function reveal(row) {
    current = row;
    if (row.y < view.scroll + HEADER_HEIGHT) scrollTo(row.y - HEADER_HEIGHT * 2);
    else if (row.y + row.height > view.scroll + view.height) scrollTo(row.y + row.height - view.height + HEADER_HEIGHT);
    view.changed();
  }

  // The row of a thread or CPU; it is listed again if it was filtered out.
  function bring(kind, id) {
    if (!find(kind, id)) {
      open[kind === "cpu" ? "cpus" : kind === "track" ? "operations" : pinned.has(id) ? "pins" : "threads"] = true;
      fx.search.show("");
    }
    const row = find(kind, id);
    if (row) reveal(row);
    return row;
  }

  // The row `step` places from the current one.
  function move(step) {
    const from = current ? current.place : rowAt(view.scroll) - 1;
    const row = rows[Math.max(0, Math.min(rows.length - 1, from + step))];
    if (row) reveal(row);
    return row;
  }

  // Pins or unpins a thread.
  function pin(index) {
    if (!pinned.delete(index)) pinned.add(index);
    build();
    current = find("thread", index);
    view.changed();
  }

  function toggle(id) {
    open[id] = !open[id];
    current = null;
    build();
  }

  // The label if operations have more rows than are drawn.
  function notDrawn({ rows: all }, label) {
    if (all <= MOST_SPAN_ROWS) return "";
    const more = all - MOST_SPAN_ROWS;
    label.dataset.more = `${more} more ${more === 1 ? "row is" : "rows are"} not drawn`;
    return `; of ${all} rows of operations the first ${MOST_SPAN_ROWS} are drawn`;
  }

  function labelOf(row) {
    const label = document.createElement("div");
    label.className = `label ${row.kind}`;
    label.id = `lane-${row.kind}-${row.id}`;
    label.setAttribute("role", "option");
    const name = document.createElement("span");
    name.className = "name";
    const detail = document.createElement("span");
    detail.className = "detail";
    if (row.kind === "header") {
      name.textContent = `${open[row.id] ? "▾" : "▸"} ${row.title}`;
      label.setAttribute("aria-expanded", String(open[row.id]));
    } else if (row.kind === "cpu") {
      name.textContent = `CPU ${row.id}`;
      if (row.cpu.busy === null) {
        label.title = `CPU ${row.id}: the trace has only the switches of its scope; the rest is not recorded`;
      } else {
        detail.textContent = fx.units.percent(row.cpu.busy, fx.trace.length);
        label.title = `CPU ${row.id}: busy for ${fx.units.time(row.cpu.busy)}`;
      }
      const host = fx.trace.stolen.find(([cpu]) => cpu === row.id);
      if (host) label.title += `; the host took ${fx.units.time(host[1])} of ${fx.units.time(host[2])}`;
    } else if (row.kind === "track") {
      const { track } = row;
      name.textContent = track.name;
      detail.textContent = track.category;
      label.title = `${track.name} of ${track.category}: operations that go on across threads${notDrawn(track, label)}`;
    } else if (row.kind === "counter") {
      const { counter } = row;
      const { value, count } = fx.units;
      name.textContent = counter.name;
      detail.textContent = `${value(counter.lowest, 3)} to ${value(counter.highest, 3)}`;
      const of = counter.process ? ` of ${counter.process}` : "";
      const kept = counter.kept < counter.count ? `; of these the page has ${count(counter.kept)}: of each few the lowest, the highest and the last` : "";
      label.title = `${counter.name}${of}: ${count(counter.count)} values from ${value(counter.lowest)} to ${value(counter.highest)}${kept}`;
    } else {
      const { thread } = row;
      name.textContent = thread.name;
      detail.textContent = thread.tid;
      const process = thread.processName && thread.pid !== thread.tid ? ` of ${thread.processName} (${thread.pid})` : "";
      label.title = `${thread.name} (${thread.tid})${process}: ran ${fx.units.time(thread.running)}, waited ${fx.units.time(thread.waiting)}, longest wait ${fx.units.time(thread.longest)}${notDrawn(thread, label)}`;
    }
    label.append(name, detail);
    gutter.append(label);
    return label;
  }

  // Puts a label next to every row in view.
  function place(rowsInView) {
    const used = new Set();
    for (const row of rowsInView) {
      let label = labels.get(row.place);
      if (!label) labels.set(row.place, (label = labelOf(row)));
      label.style.transform = `translateY(${row.y - view.scroll}px)`;
      label.style.height = `${row.height}px`;
      const chosen = current !== null && current.place === row.place;
      label.classList.toggle("current", chosen);
      label.setAttribute("aria-selected", String(chosen));
      used.add(row.place);
    }
    for (const [place, label] of labels) {
      if (!used.has(place)) {
        label.remove();
        labels.delete(place);
      }
    }
    const focus = current && labels.get(current.place);
    if (focus) area.setAttribute("aria-activedescendant", focus.id);
    else area.removeAttribute("aria-activedescendant");
  }

  fx.lanes = {
    THREAD_HEIGHT,
    SPAN_HEIGHT,
    MOST_SPAN_ROWS,
    spanTop,
    build,
    fit,
    visible,
    place,
    scrollTo,
    reveal,
    bring,
    move,
    toggle,
    pin,
    pins: () => [...pinned],
    isPinned: (index) => pinned.has(index),
    fits: (index) => fits(fx.trace.threads[index]),
    isNamed,
    find,
    at: (y) => rows[rowAt(y + view.scroll)] ?? null,
    current: () => current,
    clear: () => (current = null),
    all: () => rows,
    filterBy: (text) => {
      filter = text.trim().toLowerCase();
      current = null;
      view.scroll = 0;
      return build();
    },
    orderBy: (name) => {
      order = name;
      current = null;
      build();
    },
  };
})();
