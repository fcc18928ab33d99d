// Shows which parts are missing from this page because of its size limit, wherever the user looks at it. Bins are drawn in its place.

(() => {
  const { trace, units, view } = fx;
  const note = document.getElementById("absent");
  let stretches = [];
  let shown = "";

  // How many of the exact events are in the page, in words.
  const share = () => `${units.count(trace.kept.length)} of ${units.count(trace.tiles.length)}`;

  // Remembers the stretches in view without exact events, and shows the note if `is` is true; `width` is that of a bin.
  function show(list, is, width) {
    stretches = list;
    note.hidden = !is;
    // If the text stays the same, it is not replaced: the user may have selected it.
    const key = is ? `${view.from} ${view.to} ${list.length} ${width}` : "";
    if (key === shown) return;
    shown = key;
    if (!is) return;
    const code = document.createElement("code");
    code.textContent = trace.commandFor(view.from, view.to);
    const what = list.length > 0 ? `The page lacks exact events where it is hatched: because of its size limit, it has those of ${share()} tiles.` : "Finer bins are not in this page, because of its size limit.";
    note.replaceChildren(`${what} What is drawn there is the share of time in bins of ${units.time(width)}. All events of this view: `, code);
  }

  // Hatches lanes where bins replace events that are not in the page.
  function paint(context, rows) {
    for (const [from, to] of stretches) {
      const left = Math.max(view.x(from), -2);
      const width = Math.min(view.x(to), view.width + 2) - left;
      context.fillStyle = fx.colours.hatch(context, "absent");
      for (const row of rows) if (row.kind !== "header" && row.kind !== "counter") context.fillRect(left, row.y - view.scroll + 1, width, row.height - 2);
    }
  }

  // The parts that are missing from the page as a whole, in words.
  function leftOut() {
    const list = [];
    if (trace.kept.length < trace.tiles.length) list.push(`for its size the page has the exact events of ${share()} tiles`);
    if (trace.alike > 1) list.push(`of the coarsest bins each ${trace.alike} look alike`);
    if (trace.levelsLeftOut > 0) list.push(`bins of ${units.time(trace.levels.at(-1).width)} and longer`);
    return list;
  }

  fx.absent = { show, paint, leftOut, share };
})();
