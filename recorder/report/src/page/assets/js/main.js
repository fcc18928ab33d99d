// Start: the coarsest bins first, so that something is visible at once.

(() => {
  const { trace, units, view } = fx;

  function facts() {
    document.getElementById("title").textContent = trace.title ?? "trace";
    const begun = trace.clock(0);
    const lost = trace.gaps.reduce((sum, gap) => sum + (gap.count ?? 0), 0);
    const unknown = trace.gaps.filter((gap) => gap.count === null).length;
    const more = unknown > 0 ? `, an unknown number more in ${units.counted(unknown, "gap", "gaps")}` : "";
    // Records that applications dropped themselves, and missing events other than switches.
    const others = trace.lost.others > 0 && `${units.counted(trace.lost.others, "event", "events")} besides switches lost`;
    const records = trace.lost.providers.map(([name, records, unknown]) => {
      const what = records > 0 || unknown === 0 ? units.counted(records, "record", "records") : "an unknown number of records";
      return `${what} of ${name} lost`;
    });
    const isWhole = trace.gaps.length === 0 && !others && records.length === 0;
    const list = [
      units.time(trace.length),
      units.counted(trace.switches, "switch", "switches"),
      units.counted(trace.wakeups, "wakeup", "wakeups"),
      `${units.counted(trace.threads.length - 1, "thread", "threads")} on ${units.counted(trace.cpus.length, "CPU", "CPUs")}`,
      isWhole && "nothing lost",
      trace.gaps.length > 0 && `${units.counted(lost, "event", "events")} lost${more}`,
      others,
      ...records,
      trace.unmatched > 0 && `${units.counted(trace.unmatched, "end of a span", "ends of spans")} that began before the trace`,
      trace.stacks && `${units.counted(trace.stacks.waits, "wait", "waits")} with stacks`,
      ...(fx.told?.leftOut() ?? []),
      ...fx.absent.leftOut(),
      [trace.host, trace.release && `Linux ${trace.release}`].filter(Boolean).join(", "),
      begun && `${begun.day} ${begun.hours}`,
      trace.recorder && !trace.finished && "truncated",
    ];
    for (const key of document.querySelectorAll("[data-cause]")) key.hidden = !trace.causes.includes(key.dataset.cause);
    // Marks are also drawn where some moves may be missing.
    if (trace.moves > 0) document.querySelector("[data-cause=migrate]").hidden = false;
    document.getElementById("facts").textContent = list.filter(Boolean).join(" · ");
    document.title = `${trace.title ?? "trace"} – fxtrec`;
  }

  async function start() {
    facts();
    fx.waits.build();
    fx.worst.build();
    fx.charts.build();
    fx.lanes.build();
    fx.input.listen();
    fx.search.listen();
    fx.select.clear();
    view.onChange(() => {
      fx.paint.paint();
      fx.ruler.paint();
    });
    fx.store.onChange(view.changed);
    fx.colours.onChange(() => {
      fx.charts.paint();
      view.changed();
    });
    // Without tiles, the first frame is drawn only from bins.
    await fx.ruler.learn();
    fx.paint.resize();
    await fx.link.read();
    fx.link.follow();
    document.documentElement.dataset.ready = "true";
    fx.stacks?.load();
    fx.told?.load();
  }

  // Functions for tests and for the console.
  window.fxtrec = {
    state: () => ({
      from: view.from,
      to: view.to,
      length: trace.length,
      scroll: view.scroll,
      theme: fx.colours.theme(),
      current: fx.lanes.current() && { kind: fx.lanes.current().kind, id: fx.lanes.current().id },
      rows: fx.lanes.all().length,
      selected: fx.select.selected(),
      why: fx.why.shown(),
      flame: fx.flame?.shown() ?? null,
      told: fx.told?.shown() ?? null,
      link: fx.link.text(),
      wait: fx.waits.shown(),
      idle: fx.store.isIdle(),
      tiles: trace.tiles.length,
      kept: trace.kept,
      tilesUnfolded: fx.store.tilesUnfolded(),
      blocksInflated: fx.blocks.inflated(),
      bars: fx.charts.shown.bars,
      points: fx.charts.shown.points,
      paint: { ...fx.paint.status },
    }),
    // The states of a thread in an interval, and the reasons of its waits.
    why: async (koid, from, to) => {
      const { parts, chain } = await fx.why.explain(trace.byKoid.get(koid).index, from, to);
      const koidOf = (index) => trace.threads[index]?.koid ?? 0;
      return { parts, chain: chain.map((link) => [link.from, link.to, link.depth, koidOf(link.thread), link.state]) };
    },
    // The spans of a thread in the tile in the middle of the view.
    spans: async (thread) => {
      const tile = await fx.store.loadTile(trace.tileAt((view.from + view.to) / 2));
      return (tile.spans.get(thread) ?? []).map((span) => ({ ...span, name: trace.names[span.name] }));
    },
  };

  start();
})();
