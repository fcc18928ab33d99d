// The flame graph next to the distribution: where the selected threads were blocked or ran in the selected time.

(() => {
  const { trace, units, view, stacks } = fx;
  // The height of a function in pixels, and the width of the narrowest one that is drawn.
  const ROW = 18;
  const NARROWEST = 1;
  // The graph follows the view after this many milliseconds without a change.
  const DELAY = 120;
  const HUES = 12;
  const KINDS = {
    offcpu: { title: "blocked time", of: (table) => table.wait.thread.length },
    wake: { title: "blocked time, by who ended it", of: (table) => table.wait.wake.reduce((sum, wake) => sum + (wake >= 0 ? 1 : 0), 0) },
    cpu: { title: "time on a CPU", of: (table) => table.sample.thread.length },
  };

  const element = fx.select.element;
  const panel = element("section", undefined, "panel flame");
  panel.setAttribute("aria-label", "Stacks");
  const heading = element("h2");
  const label = element("label", "Stacks of");
  label.htmlFor = "flame-kind";
  const choice = element("select");
  choice.id = "flame-kind";
  heading.append(label, " ", choice);
  const scrolls = element("div", undefined, "scrolls");
  const caption = element("p", undefined, "hint");
  caption.id = "flame-about";
  const graph = element("div");
  graph.id = "flame";
  graph.tabIndex = 0;
  graph.setAttribute("role", "tree");
  graph.setAttribute("aria-label", "Flame graph. Arrow keys move, Enter shows only one function, Escape shows all again.");
  scrolls.append(caption, graph);
  panel.append(heading, scrolls);
  document.getElementById("panels").append(panel);
  document.documentElement.dataset.stacks = "true";
  const helped = document.querySelector("#help table:last-of-type").insertRow();
  helped.append(element("th", "flame graph"), element("td", "a click or Enter shows only one function, the top row or Esc shows all again; arrow keys move"));
  helped.firstChild.scope = "row";

  let kind = null;
  // The node that is zoomed in on, 0 for none; the node that the keyboard has focused.
  let alone = 0;
  let current = 0;
  let shown = null;
  let timer = null;
  // The parameters of the last drawing, to avoid drawing it again.
  let drawn = "";

  // The time and the threads: those of the selection, otherwise the time in view and the threads that match the search.
  function scope() {
    const selected = fx.select.selected();
    const whole = selected?.kind === "range" || selected?.kind === "span";
    const [from, to] = whole ? [selected.start, selected.end] : [Math.round(view.from), Math.round(view.to)];
    const thread = selected && selected.thread > 0 ? selected.thread : null;
    return { from, to, thread, is: thread !== null ? (it) => it === thread : fx.lanes.fits, whole };
  }

  // The time of each node on any stack, innermost or not, and the number of these waits or samples.
  function weigh({ from, to, is }) {
    const table = stacks.table();
    const ofStack = new Float64Array(table.stackNode.length);
    let count = 0;
    if (kind === "cpu") {
      const weight = stacks.about.period * stacks.about.every;
      for (const [thread, [first, end]] of table.samplesOf) {
        if (!is(thread)) continue;
        for (let place = fx.unfold.lastAt(table.sample.time, from - 1, first, end) + 1; place < end && table.sample.time[place] < to; place++) {
          ofStack[table.sample.stack[place]] += weight;
          count += 1;
        }
      }
    } else {
      const { begin, end: ends, stack, wake } = table.wait;
      for (const [thread, [first, end]] of table.waitsOf) {
        if (!is(thread)) continue;
        for (let place = Math.max(fx.unfold.lastAt(begin, from, first, end), first); place < end && begin[place] < to; place++) {
          const length = Math.min(ends[place], to) - Math.max(begin[place], from);
          const at = kind === "wake" ? wake[place] : stack[place];
          if (length <= 0 || at < 0) continue;
          ofStack[at] += length;
          count += 1;
        }
      }
    }
    const weights = new Float64Array(table.callers.length);
    ofStack.forEach((weight, at) => (weights[table.stackNode[at]] += weight));
    // A caller has a smaller number than its callees.
    for (let node = weights.length - 1; node > 0; node--) weights[table.callers[node]] += weights[node];
    const found = ofStack.reduce((sum, weight, at) => sum + (stacks.hasFound(at) ? weight : 0), 0);
    return { weights, count, found };
  }

  // The callees of each caller, by name.
  function inner(weights) {
    const table = stacks.table();
    const of = new Map();
    for (let node = 1; node < weights.length; node++) {
      if (weights[node] <= 0) continue;
      const caller = table.callers[node];
      if (of.has(caller)) of.get(caller).push(node);
      else of.set(caller, [node]);
    }
    for (const list of of.values()) list.sort((a, b) => (stacks.nameOf(a) < stacks.nameOf(b) ? -1 : 1));
    return of;
  }

  // The colour of a name, which is always the same; all kernel functions share one.
  function colour(node) {
    if (stacks.fileOf(node) === stacks.KERNEL) return "--hue-9";
    let hash = 0;
    for (const letter of stacks.nameOf(node)) hash = (Math.imul(hash, 31) + letter.codePointAt(0)) >>> 0;
    const hue = hash % (HUES - 1);
    return `--hue-${hue < 9 ? hue : hue + 1}`;
  }

  // Where each function is drawn: its node, row, left edge and width as shares, and weight.
  function places({ weights, of }, width) {
    const table = stacks.table();
    const total = weights[alone];
    const list = [];
    const above = [];
    for (let node = alone; node > 0; node = table.callers[node]) above.unshift(node);
    const all = [0, ...above];
    all.forEach((node, row) => list.push({ node, row, left: 0, share: 1, weight: weights[node] }));
    const work = [[alone, all.length, 0]];
    while (work.length > 0) {
      const [caller, row, begin] = work.pop();
      let left = begin;
      for (const node of of.get(caller) ?? []) {
        const share = weights[node] / total;
        if (share * width >= NARROWEST) {
          list.push({ node, row, left, share, weight: weights[node] });
          work.push([node, row + 1, left]);
        }
        left += share;
      }
    }
    return list;
  }

  const title = (node) => (node === 0 ? "all" : stacks.nameOf(node));

  function draw() {
    const width = Math.max(graph.clientWidth, 50);
    const all = shown.weights[0];
    graph.replaceChildren();
    if (all <= 0) {
      graph.style.height = `${ROW}px`;
      shown.places = [];
      graph.append(element("p", kind === "cpu" ? "No sample here." : "No wait with a stack here.", "hint"));
      return;
    }
    if (shown.weights[alone] <= 0) alone = 0;
    shown.places = places(shown, width);
    const rows = Math.max(...shown.places.map(({ row }) => row)) + 1;
    graph.style.height = `${rows * ROW}px`;
    const list = document.createDocumentFragment();
    for (const { node, row, left, share, weight } of shown.places) {
      const box = element("div", share * width > 20 ? title(node) : "", "frame");
      box.id = `frame-${node}`;
      box.dataset.node = node;
      box.setAttribute("role", "treeitem");
      box.setAttribute("aria-level", String(row + 1));
      const file = node === 0 ? "" : stacks.table().files[stacks.fileOf(node)];
      const text = `${title(node)}${file ? ` (${file})` : ""}: ${units.time(weight)}, ${units.percent(weight, all)}`;
      box.title = text;
      box.setAttribute("aria-label", text);
      box.style.cssText = `top:${row * ROW}px;left:${100 * left}%;width:${100 * share}%;background:var(${node === 0 ? "--header" : colour(node)})`;
      box.classList.toggle("all", node === 0);
      box.classList.toggle("around", row > 0 && node !== alone && row <= depth(alone));
      box.classList.toggle("found", node !== 0 && stacks.isFound(title(node)));
      list.append(box);
    }
    graph.append(list);
    mark();
  }

  function depth(node) {
    let rows = 0;
    for (let at = node; at > 0; at = stacks.table().callers[at]) rows += 1;
    return rows;
  }

  // Marks the function that the keyboard has focused.
  function mark() {
    graph.querySelector("[aria-current]")?.removeAttribute("aria-current");
    const box = document.getElementById(`frame-${current}`);
    if (!box) {
      graph.removeAttribute("aria-activedescendant");
      return;
    }
    if (document.activeElement === graph) box.setAttribute("aria-current", "true");
    graph.setAttribute("aria-activedescendant", box.id);
  }

  function paint() {
    timer = null;
    if (stacks.table() === null) return;
    if (kind === null) build();
    const now = scope();
    const key = [kind, now.from, now.to, now.thread, alone, graph.clientWidth, document.getElementById("search").value].join(" ");
    if (key === drawn) return;
    drawn = key;
    const { weights, count, found } = weigh(now);
    shown = { ...now, weights, count, found, of: inner(weights), places: [] };
    draw();
    const who = now.thread !== null ? fx.select.threadName(now.thread) : "the threads in the list";
    const what = kind === "cpu" ? (count === 1 ? "sample" : "samples") : count === 1 ? "wait" : "waits";
    const searched = document.getElementById("search").value.trim();
    const share = found > 0 ? [`${units.percent(found, weights[0])} with “${searched}”`] : [];
    const list = [`${units.time(weights[0])} of ${who} in ${units.count(count)} ${what}, in ${now.whole ? "the selected time" : "the time in view"}`, ...share, ...stacks.leftOut()];
    caption.textContent = list.join("; ");
  }

  function changed() {
    if (timer !== null) clearTimeout(timer);
    timer = setTimeout(paint, DELAY);
  }

  function zoom(node) {
    alone = current = node;
    paint();
    document.getElementById(`frame-${node}`)?.scrollIntoView({ block: "nearest" });
  }

  // The function to which a key leads from the current one.
  function next(key) {
    const here = shown.places.find(({ node }) => node === current) ?? shown.places[0];
    const isBeside = (by) => ({ row, left }) => row === here.row && (left - here.left) * by > 0;
    if (key === "ArrowUp") return stacks.table().callers[here.node] ?? 0;
    if (key === "ArrowDown") {
      const below = shown.places.filter(({ node }) => node > 0 && stacks.table().callers[node] === here.node);
      return below.sort((a, b) => b.weight - a.weight)[0]?.node;
    }
    if (key === "ArrowLeft") return shown.places.filter(isBeside(-1)).sort((a, b) => b.left - a.left)[0]?.node;
    return shown.places.filter(isBeside(1)).sort((a, b) => a.left - b.left)[0]?.node;
  }

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !shown || shown.places.length === 0) return;
    if (/^Arrow/.test(event.key)) {
      const node = next(event.key);
      if (node !== undefined) {
        current = node;
        mark();
        document.getElementById(`frame-${node}`)?.scrollIntoView({ block: "nearest" });
      }
    } else if (event.key === "Enter") zoom(current);
    else if (event.key === "Escape" && alone !== 0) zoom(0);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Builds the choice once it is known which kinds there are.
  function build() {
    const has = Object.entries(KINDS).filter(([, { of }]) => of(stacks.table()) > 0);
    for (const [name, { title }] of has) choice.add(new Option(title, name));
    kind = has[0]?.[0] ?? "offcpu";
  }

  // Shows another kind of stacks, if there are any.
  function choose(name) {
    if (kind === null) build();
    if (![...choice.options].some(({ value }) => value === name)) return;
    kind = choice.value = name;
    alone = current = 0;
    paint();
    // The address includes it.
    view.changed();
  }

  choice.addEventListener("change", () => choose(choice.value));
  graph.addEventListener("click", ({ target }) => {
    const box = target.closest(".frame");
    if (box) zoom(Number(box.dataset.node));
  });
  graph.addEventListener("keydown", key);
  graph.addEventListener("focus", mark);
  graph.addEventListener("blur", mark);
  view.onChange(changed);

  fx.flame = {
    choose,
    // The kind that is shown, if it is not the default.
    chosen: () => (kind === null || kind === choice.options[0]?.value ? null : kind),
    shown: () =>
      shown && {
        kind,
        from: shown.from,
        to: shown.to,
        thread: shown.thread === null ? null : trace.threads[shown.thread].koid,
        count: shown.count,
        found: shown.found,
        total: shown.weights[0],
        alone: title(alone),
        current: title(current),
        frames: shown.places.map(({ node, row, weight }) => [title(node), row, weight]),
      },
  };
})();
