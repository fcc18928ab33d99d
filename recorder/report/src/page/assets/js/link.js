// The view as a link: the time in view, the search and the selection are in the address, after the #, so that a link
// to a moment can be sent along with the page.

(() => {
  const { trace, view } = fx;
  // The address follows the view after this many milliseconds without a change; browsers limit how often it may
  // change.
  const DELAY = 300;
  let timer = null;
  let before = null;

  function text() {
    const parts = new URLSearchParams();
    if (view.from > 0 || view.to < trace.length) parts.set("view", `${Math.round(view.from)}-${Math.round(view.to)}`);
    const search = document.getElementById("search").value.trim();
    if (search) parts.set("search", search);
    const order = document.getElementById("order").value;
    if (order !== "running") parts.set("order", order);
    const pins = fx.lanes.pins().map((index) => trace.threads[index].koid);
    if (pins.length > 0) parts.set("pins", pins.join(","));
    const stacks = fx.flame?.chosen();
    if (stacks) parts.set("stacks", stacks);
    const selected = fx.select.selected();
    if (selected) {
      const { kind, id } = selected.lane;
      const lane = kind === "cpu" ? `cpu${id}` : kind === "track" ? `track${id - trace.threads.length}` : trace.threads[selected.lane.id].koid;
      if (selected.kind === "absent") parts.set("slice", `${lane}@${Math.round(selected.at)}`);
      else parts.set(selected.kind, selected.kind === "slice" ? `${lane}@${selected.start}` : `${lane}@${selected.start}-${selected.end}`);
    }
    return parts.toString();
  }

  function write() {
    timer = null;
    const now = text();
    if (now === before) return;
    before = now;
    try {
      history.replaceState(null, "", now ? `#${now}` : location.pathname + location.search);
    } catch {
      // Some file viewers do not permit it; the page works without it.
    }
  }

  const range = (text) => /^(\d+)-(\d+)$/.exec(text ?? "")?.slice(1).map(Number) ?? null;

  // Restores the view from the address, as far as this trace has it.
  async function read() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const order = parts.get("order");
    const field = document.getElementById("order");
    if ([...field.options].some((option) => option.value === order)) {
      field.value = order;
      fx.lanes.orderBy(order);
    }
    for (const koid of (parts.get("pins") ?? "").split(",").filter(Boolean)) {
      const thread = trace.byKoid.get(Number(koid));
      if (thread && thread.index > 0 && !fx.lanes.isPinned(thread.index)) fx.lanes.pin(thread.index);
    }
    if (parts.get("search")) {
      // The search may be for a function; without stacks, the selected thread could be filtered out.
      await fx.stacks?.load();
      fx.search.show(parts.get("search"));
    }
    if (parts.get("stacks") && fx.flame) {
      await fx.stacks.load();
      fx.flame.choose(parts.get("stacks"));
    }
    const shown = range(parts.get("view"));
    if (shown && shown[0] < shown[1]) view.show(shown[0], shown[1]);
    for (const kind of ["slice", "span", "range"]) {
      const [lane, at] = (parts.get(kind) ?? "").split("@");
      if (!at) continue;
      const cpu = /^cpu(\d+)$/.exec(lane);
      const thread = trace.byKoid.get(Number(lane));
      const track = trace.tracks[/^track(\d+)$/.exec(lane)?.[1]];
      if (kind === "slice") {
        if (cpu) await fx.select.pick("cpu", Number(cpu[1]), Number(at));
        else if (thread) {
          fx.lanes.bring("thread", thread.index);
          await fx.select.pick("thread", thread.index, Number(at));
        }
      } else if (track && range(at)) {
        fx.lanes.bring("track", track.index);
        await fx.select.pickSpanAt(track.index, ...range(at));
      } else if (thread && range(at)) {
        if (thread.index > 0) fx.lanes.bring("thread", thread.index);
        const [from, to] = range(at);
        if (kind === "range") fx.select.pickRange(thread.index, from, to);
        else await fx.select.pickSpanAt(thread.index, from, to);
      }
    }
  }

  // From now on, the address follows the view.
  function follow() {
    before = location.hash.slice(1);
    view.onChange(() => {
      if (timer !== null) clearTimeout(timer);
      timer = setTimeout(write, DELAY);
    });
    // The user changed the address; the page is not reloaded for that.
    addEventListener("hashchange", read);
  }

  fx.link = { read, follow, text };
})();
