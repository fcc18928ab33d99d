// Mouse, touch and keyboard.

(() => {
  const { view, lanes, select } = fx;
  const area = document.getElementById("lanes");
  const tip = document.getElementById("tip");
  const help = document.getElementById("help");
  // Pixels that the pointer moves before a press becomes a drag.
  const DRAG = 4;

  function place(event) {
    const box = fx.paint.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  function wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      view.zoom(Math.exp(event.deltaY * 0.0035), place(event)[0] / view.width);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      view.pan((event.deltaX || event.deltaY) / view.width);
    }
  }

  // Pressed fingers and buttons, and how far they have moved.
  const down = new Map();
  let drag = null;

  function begin(event) {
    if (event.button > 0) return;
    area.focus({ preventScroll: true });
    down.set(event.pointerId, place(event));
    fx.paint.canvas.setPointerCapture(event.pointerId);
    const [x, y] = place(event);
    drag = { x, y, from: view.from, scroll: view.scroll, moved: false, mark: event.shiftKey ? x : null, row: lanes.at(y) };
  }

  function pinch(event) {
    const [one, two] = [...down.values()];
    const before = Math.abs(one[0] - two[0]);
    down.set(event.pointerId, place(event));
    const [a, b] = [...down.values()];
    const after = Math.abs(a[0] - b[0]);
    if (before > 10 && after > 10) view.zoom(before / after, (a[0] + b[0]) / 2 / view.width);
  }

  function move(event) {
    const [x, y] = place(event);
    if (down.size === 2) return pinch(event);
    if (!drag || down.size === 0) return hover(x, y);
    if (Math.hypot(x - drag.x, y - drag.y) > DRAG) drag.moved = true;
    if (!drag.moved) return;
    tip.hidden = true;
    if (drag.mark !== null) {
      mark(drag.mark, x);
      return;
    }
    const shift = (drag.x - x) * view.perPixel();
    view.show(drag.from + shift, drag.from + shift + (view.to - view.from));
    lanes.scrollTo(drag.scroll + drag.y - y);
  }

  const marker = document.getElementById("marker");

  function mark(from, to) {
    marker.hidden = false;
    marker.style.left = `${Math.min(from, to)}px`;
    marker.style.width = `${Math.abs(to - from)}px`;
    marker.textContent = fx.units.time(Math.abs(to - from) * view.perPixel());
  }

  function end(event) {
    down.delete(event.pointerId);
    if (!drag) return;
    const [x, y] = place(event);
    const { mark: begun, moved, row } = drag;
    drag = null;
    marker.hidden = true;
    if (moved && begun !== null) {
      if (row?.kind === "thread") lanes.reveal(row);
      select.pickRange(row?.kind === "thread" ? row.id : 0, view.time(begun), view.time(x));
    }
    if (!moved && event.type === "pointerup") click(x, y);
  }

  function click(x, y) {
    const row = lanes.at(y);
    if (!row) return;
    if (row.kind === "header") {
      lanes.toggle(row.id);
      return;
    }
    lanes.reveal(row);
    select.pickAt(row, view.time(x), y + view.scroll - row.y);
  }

  function hover(x, y) {
    const row = lanes.at(y);
    if (!row || row.kind === "header") {
      tip.hidden = true;
      return;
    }
    const time = view.time(x);
    const what = select.describe(row, time, y + view.scroll - row.y);
    const name = row.kind === "cpu" ? `CPU ${row.id}` : (row.track ?? row.counter)?.name ?? select.threadName(row.id);
    tip.textContent = `${name} at ${fx.units.moment(time, view.perPixel())}${what ? `: ${what}` : ""}`;
    tip.hidden = false;
    const left = Math.min(x + 14, view.width - tip.offsetWidth - 4);
    tip.style.transform = `translate(${Math.max(left, 0)}px, ${Math.min(y + 18, view.height - tip.offsetHeight - 2)}px)`;
  }

  // Selects in the current lane, in the middle of the view.
  function enter() {
    const row = lanes.current();
    if (row?.kind === "header") lanes.toggle(row.id);
    else if (row?.kind === "track") select.pickAt(row, (view.from + view.to) / 2, lanes.spanTop(row) + 1);
    else if (row && row.kind !== "counter") select.pick(row.kind, row.id, (view.from + view.to) / 2);
  }

  // The selection at the first press of m, where a range begins; the second press ends it.
  let markedFrom = null;

  function markRange() {
    const selected = select.selected();
    if (!selected) return;
    const { thread, start, end } = selected;
    if (markedFrom === null) {
      markedFrom = { thread, start, end };
      document.getElementById("announce").textContent = "a range begins here; m again ends it";
      return;
    }
    select.pickRange(markedFrom.thread, Math.min(markedFrom.start, start), Math.max(markedFrom.end, end));
    markedFrom = null;
  }

  const KEYS = {
    ArrowLeft: () => view.pan(-0.2),
    ArrowRight: () => view.pan(0.2),
    ArrowUp: () => lanes.move(-1),
    ArrowDown: () => lanes.move(1),
    PageUp: () => lanes.move(-10),
    PageDown: () => lanes.move(10),
    a: () => view.pan(-0.2),
    d: () => view.pan(0.2),
    w: () => view.zoom(0.6, focus()),
    s: () => view.zoom(1 / 0.6, focus()),
    "+": () => view.zoom(0.6, focus()),
    "=": () => view.zoom(0.6, focus()),
    "-": () => view.zoom(1 / 0.6, focus()),
    0: () => view.whole(),
    Home: () => view.pan(-fx.trace.length),
    End: () => view.show(fx.trace.length - (view.to - view.from), fx.trace.length),
    Enter: enter,
    f: () => select.selected() && view.around(select.selected().start, select.selected().end),
    ",": () => select.step(-1),
    ".": () => select.step(1),
    n: () => fx.why.step(1),
    N: () => fx.why.step(-1),
    m: markRange,
    p: () => lanes.current()?.kind === "thread" && lanes.pin(lanes.current().id),
    "[": () => fx.waits.step(-1),
    "]": () => fx.waits.step(1),
    t: () => fx.colours.toggle(),
    "/": () => document.getElementById("search").focus(),
    "?": () => help.showModal(),
    Escape: () => select.clear(),
  };

  // The time around which keys zoom: the selection if it is in view, else the middle.
  function focus() {
    const selected = select.selected();
    if (!selected) return 0.5;
    const share = ((selected.start + selected.end) / 2 - view.from) / (view.to - view.from);
    return share >= 0 && share <= 1 ? share : 0.5;
  }

  // Keys that a focused control needs for itself.
  function isTaken(event) {
    const { target } = event;
    if (help.open || target.closest("input, select, textarea")) return true;
    if (target.closest("button, a, summary") && (event.key === "Enter" || event.key === " ")) return true;
    const moves = /^(Arrow|Page|Home|End)/.test(event.key);
    return moves && target !== area && target.closest("[role=separator], [role=slider], .scrolls") !== null;
  }

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || isTaken(event)) return;
    const act = KEYS[event.key] ?? KEYS[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
    const moment = (time) => fx.units.moment(time, view.perPixel());
    document.getElementById("window").textContent = `${moment(view.from)} to ${moment(view.to)}`;
  }

  // The overview: a click or drag on it moves the view there.
  function overview() {
    const bar = document.getElementById("overview-box");
    const go = (event) => {
      const box = bar.getBoundingClientRect();
      const middle = ((event.clientX - box.left) / box.width) * fx.trace.length;
      const half = (view.to - view.from) / 2;
      view.show(middle - half, middle + half);
    };
    bar.addEventListener("pointerdown", (event) => {
      bar.setPointerCapture(event.pointerId);
      go(event);
    });
    bar.addEventListener("pointermove", (event) => event.buttons > 0 && go(event));
    bar.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -0.2, ArrowRight: 0.2, PageUp: -1, PageDown: 1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      view.pan(by);
    });
  }

  // The bar between lanes and panels changes how the height is divided.
  function separator() {
    const bar = document.getElementById("separator");
    const root = document.documentElement;
    const set = (height) => {
      const room = Math.max(120, Math.min(height, innerHeight - 220));
      root.style.setProperty("--panels", `${room}px`);
      bar.setAttribute("aria-valuenow", String(Math.round((100 * room) / innerHeight)));
      fx.paint.resize();
    };
    const height = () => document.getElementById("panels").getBoundingClientRect().height;
    bar.addEventListener("pointerdown", (event) => bar.setPointerCapture(event.pointerId));
    bar.addEventListener("pointermove", (event) => event.buttons > 0 && set(innerHeight - event.clientY));
    bar.addEventListener("keydown", (event) => {
      const by = { ArrowUp: 24, ArrowDown: -24 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      set(height() + by);
    });
  }

  function listen() {
    const { canvas } = fx.paint;
    canvas.addEventListener("wheel", wheel, { passive: false });
    canvas.addEventListener("pointerdown", begin);
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", () => (tip.hidden = true));
    canvas.addEventListener("dblclick", () => KEYS.f());
    area.addEventListener("scroll", () => lanes.scrollTo(area.scrollTop));
    document.getElementById("gutter").addEventListener("click", (event) => {
      const box = area.getBoundingClientRect();
      const row = lanes.at(event.clientY - box.top);
      if (row?.kind === "header") lanes.toggle(row.id);
      else if (row) lanes.reveal(row);
    });
    addEventListener("keydown", key);
    addEventListener("resize", () => {
      fx.paint.resize();
      fx.charts.resize();
    });
    overview();
    separator();
    document.getElementById("help-button").addEventListener("click", () => help.showModal());
    document.getElementById("theme").addEventListener("click", fx.colours.toggle);
    document.getElementById("zoom-in").addEventListener("click", () => view.zoom(0.6, focus()));
    document.getElementById("zoom-out").addEventListener("click", () => view.zoom(1 / 0.6, focus()));
    document.getElementById("zoom-all").addEventListener("click", view.whole);
  }

  fx.input = { listen };
})();
