// Why a stretch of a thread's time took so long: its parts, and the chain of threads that it waited for. The rules
// and results are those of fxtrec-blame, as far as the page has the data: docs/reference/why.md defines both.
//
// A frame consists of the states of one thread in a stretch, step by step, from its end. If the thread was blocked, the step contains the
// frame of its waker for the same stretch. The innermost steps are the links of the chain.

(() => {
  const { STATE, isThrottled } = fx.unfold;
  const { trace, view, units } = fx;
  // The maximum numbers of threads that are followed, of steps in a chain, and of lookups of CPUs.
  const MOST_DEEP = 24;
  const MOST_STEPS = 4000;
  const MOST_LOOKS = 20000;
  // A waker may have left its CPU this long before the thread was able to run, in nanoseconds.
  const UNDERWAY = 1e6;
  // The maximum number of rows in the list of parts and in the chain; the longest are shown.
  const MOST_PARTS = 8;
  const MOST_LINKS = 200;
  const ENDED = 10;
  const ABSENT = "not in this page";

  const isBlocked = (state) => state >= STATE.SLEEPING && state <= 7;
  const isWoken = (state) => state === STATE.WOKEN || state === STATE.WOKEN_THROTTLED;

  // The state of a lane at a time; if unknown, the time in its tile at which it becomes known.
  async function at(kind, id, time) {
    const found = await fx.select.slice(kind, id, time);
    if (found !== null) return found;
    if (trace.isOut(time)) {
      const { from } = trace.outAround(trace.tileAt(time));
      return { start: from, end: time + 1, what: kind === "cpu" ? -1 : STATE.UNKNOWN, cpu: -1, waker: -1, taken: null, out: true };
    }
    const tile = await fx.store.loadTile(trace.tileAt(time));
    const lane = (kind === "cpu" ? tile.cpus : tile.threads).get(id);
    const place = lane ? lane.after(time) - 1 : -1;
    return { start: place >= 0 ? lane.end[place] : tile.from, end: time + 1, what: kind === "cpu" ? -1 : STATE.UNKNOWN, cpu: -1, waker: -1, taken: null };
  }

  // The tenants of a CPU in a stretch: by thread, 0 for idle, -1 for unknown.
  async function tenants(walk, cpu, from, to) {
    const sums = new Map();
    for (let time = to; time > from; ) {
      const looked = walk.looks++ > MOST_LOOKS ? { start: from, what: -1 } : await at("cpu", cpu, time - 1);
      const begin = Math.max(looked.start, from);
      sums.set(looked.what, (sums.get(looked.what) ?? 0) + time - begin);
      time = begin;
    }
    return [...sums].map(([who, length]) => ({ who, length })).sort((a, b) => b.length - a.length || a.who - b.who);
  }

  // The steps of a wait, the last first: one for each queue.
  async function waited(walk, step, start) {
    const { found, missing } = await fx.select.movesOf(step.thread, start, step.to);
    // If a move may be missing, it is unknown in which queue the thread was.
    if (missing) return [{ ...step, tenants: [{ who: -1, length: step.to - step.from }] }];
    const moves = found.filter((move) => move.time > start && move.time < step.to).sort((a, b) => a.time - b.time);
    const parts = [{ ...step, cpu: moves.length > 0 ? moves[0].from : step.cpu, from: start }];
    for (const { time, to } of moves) {
      parts.at(-1).to = time;
      parts.push({ ...step, cpu: to, from: time });
    }
    const within = parts.filter((part) => part.to > step.from).reverse();
    for (const part of within) {
      part.from = Math.max(part.from, step.from);
      part.tenants = await tenants(walk, part.cpu, part.from, part.to);
    }
    return within;
  }

  // Whether no event recorded the switch that ended it, which happened at this time or earlier.
  async function isGuessed({ thread, to, state, cpu }) {
    if (state !== STATE.RUNNING && state !== STATE.WOKEN && state !== STATE.PREEMPTED) return false;
    if (to >= trace.length) return false;
    const { inferred } = await fx.store.loadTile(trace.tileAt(to));
    if (inferred.size === 0) return false;
    const on = state === STATE.RUNNING ? cpu : (await at("thread", thread, to)).cpu;
    return inferred.has(`${on}@${to}`);
  }

  // The frame of a thread.
  async function frame(walk, thread, from, to) {
    walk.stack.push(thread);
    const steps = [];
    for (let until = to; until > from; ) {
      if (++walk.steps > MOST_STEPS) {
        steps.push({ thread, from, to: until, state: STATE.UNKNOWN, reason: "not followed further" });
        break;
      }
      const found = await at("thread", thread, until - 1);
      const begin = Math.max(found.start, from);
      const step = { thread, from: begin, to: until, since: found.start, state: found.what, cpu: found.cpu, waker: -1, ended: null, inside: null };
      if (found.out) step.reason = ABSENT;
      // It is unknown which part of a slice the taken time belongs to.
      if (found.what === STATE.RUNNING && begin === found.start && until === found.end) step.taken = found.taken;
      if (found.endOut && until === found.end && found.what >= STATE.SLEEPING) step.ended = "absent";
      else if (found.what >= STATE.SLEEPING && !isThrottled(found.what) && until === found.end) await end(walk, step);
      if (until === found.end && (await isGuessed(step))) {
        step.state = STATE.UNKNOWN;
        step.reason = "no event reported the switch";
        steps.push(step);
      } else if (found.what === STATE.WOKEN || found.what === STATE.PREEMPTED) steps.push(...(await waited(walk, step, found.start)));
      else steps.push(step);
      until = begin;
    }
    walk.stack.pop();
    return { thread, from, to, steps: steps.reverse() };
  }

  // How the wait of a blocked thread ended, and the activity of its waker meanwhile.
  async function end(walk, step) {
    const next = step.to < trace.length ? await at("thread", step.thread, step.to) : null;
    if (next === null || next.start !== step.to) return;
    if (next.what === STATE.RUNNING) {
      step.state = STATE.UNKNOWN;
      step.reason = "its wakeup is not in the file";
    }
    if (!isWoken(next.what)) return;
    step.ended = "woken";
    step.waker = next.waker > 0 ? next.waker : -1;
    if (step.waker < 0 || !isBlocked(step.state)) return;
    if (walk.stack.length >= MOST_DEEP || walk.stack.includes(step.waker)) {
      step.reason = "not followed further";
      return;
    }
    let left = step.to;
    let found = await at("thread", step.waker, left);
    if (found.what !== STATE.RUNNING && found.start === left) found = await at("thread", step.waker, left - 1);
    while (found.what !== STATE.RUNNING) {
      if (step.to - found.start > UNDERWAY || found.start <= step.from) {
        step.reason = found.out ? `what its waker did is ${ABSENT}` : "the waker was not seen running";
        return;
      }
      left = found.start;
      found = await at("thread", step.waker, left - 1);
    }
    step.inside = await frame(walk, step.waker, step.from, left);
    if (left < step.to) step.inside.steps.push({ thread: step.waker, from: left, to: step.to, state: "underway", cpu: -1, waker: -1, inside: null });
  }

  function links(one, depth = 0, list = []) {
    for (const step of one.steps) {
      if (step.inside) links(step.inside, depth + 1, list);
      else list.push({ ...step, depth });
    }
    return list;
  }

  // The parts of a frame's own time, the longest first: key, colour, text, and length.
  function parts(one) {
    const sums = new Map();
    const add = (key, colour, text, length) => {
      if (length <= 0) return;
      const part = sums.get(key) ?? { key, colour, text, length: 0 };
      part.length += length;
      sums.set(key, part);
    };
    for (const step of one.steps) {
      const length = step.to - step.from;
      const { steal = 0, irq = 0 } = step.taken ?? {};
      const stolen = Math.min(steal, length);
      const interrupts = Math.min(irq, length - stolen);
      if (step.state === STATE.RUNNING) {
        add("on_cpu", "running", "on the CPU", length - stolen - interrupts);
        add("stolen", "stolen", "on the CPU, but the host had taken it", stolen);
        add("interrupts", "moved", "on the CPU, in interrupts", interrupts);
      } else if (step.tenants) {
        for (const { who, length } of step.tenants) add(`waiting ${who}`, "waiting", `waiting for a CPU ${ranBy(who)}`, length);
      } else if (isThrottled(step.state)) {
        add("throttled", "throttled", "throttled: its cgroup's quota was used up", length);
      } else if (step.state === STATE.UNKNOWN && step.reason === ABSENT) {
        add("absent", "span-many", `unknown: ${ABSENT}`, length);
      } else if (step.state === STATE.UNKNOWN) {
        add("unknown", "span-many", "unknown", length);
      } else {
        add(`blocked ${step.state} ${step.waker} ${step.ended}`, step.state === STATE.DISK ? "disk" : "sleeping", `${doing(step)}, ${ending(step)}`, length);
      }
    }
    return [...sums.values()].sort((a, b) => b.length - a.length);
  }

  const ranBy = (who) => (who < 0 ? "(occupied by an unknown thread)" : who === 0 ? "that was idle" : `while ${fx.select.threadName(who)} ran`);

  function doing({ state }) {
    if (isBlocked(state)) return state === STATE.DISK ? "blocked, uninterruptibly" : "blocked or asleep";
    return state >= ENDED ? "ended" : "stopped";
  }

  function ending({ ended, waker }) {
    if (ended === null) return "beyond the end";
    if (ended === "absent") return `how it ended is ${ABSENT}`;
    return waker > 0 ? `until woken by ${fx.select.threadName(waker)}` : "until woken by an interrupt, a timer or an unknown waker";
  }

  // A line of text about a link.
  function describe(link) {
    const why = link.reason ? ` (${link.reason})` : "";
    if (link.state === "underway") return "was waking the next thread (wakeup still in progress)";
    if (link.state === STATE.RUNNING) return `ran on CPU ${link.cpu}`;
    if (link.state === STATE.UNKNOWN) return `unknown${why}`;
    if (isThrottled(link.state)) return "was throttled";
    // The place in its code, if recorded.
    if (!link.tenants) return `was ${doing(link)}${fx.stacks?.hint(link.thread, link.since) ?? ""}, ${ending(link)}${why}`;
    const names = link.tenants.slice(0, 2).map(({ who, length }) => `${who < 0 ? "unknown" : who === 0 ? "idle" : fx.select.threadName(who)} ${units.time(length)}`);
    if (link.tenants.length > 2) names.push(`${link.tenants.length - 2} more`);
    return `${link.state === STATE.PREEMPTED ? "was preempted, waited" : "waited"} for CPU ${link.cpu}: ${names.join(", ")}`;
  }

  async function explain(thread, from, to) {
    const walk = { stack: [], steps: 0, looks: 0 };
    const found = await frame(walk, thread, from, to);
    return { thread, from, to, frame: found, parts: parts(found), chain: links(found) };
  }

  // The explanation that is shown, and its selected link; -1 for none.
  let shown = null;
  let current = -1;
  let rows = [];

  function go(place) {
    if (shown === null || shown.chain.length === 0) return;
    rows[current]?.removeAttribute("aria-current");
    current = Math.max(0, Math.min(place, shown.chain.length - 1));
    const link = shown.chain[current];
    rows[current]?.setAttribute("aria-current", "true");
    rows[current]?.scrollIntoView({ block: "nearest" });
    const span = view.to - view.from;
    if (link.to < view.from || link.from > view.to) view.show((link.from + link.to - span) / 2, (link.from + link.to + span) / 2);
    fx.lanes.bring("thread", link.thread);
    document.getElementById("announce").textContent = `link ${current + 1} of ${shown.chain.length}: ${fx.select.threadName(link.thread)} ${describe(link)}, ${units.time(link.to - link.from)}`;
    view.changed();
  }

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  // Fills an element with the bar of the parts, their list, and the chain.
  function write(box) {
    const length = Math.max(shown.to - shown.from, 1);
    const bar = element("div", undefined, "blame");
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", shown.parts.map((part) => `${part.text} ${units.percent(part.length, length)}`).join("; "));
    const list = element("ul", undefined, "parts");
    for (const part of shown.parts) {
      const piece = element("span");
      piece.style.flexGrow = String(part.length);
      piece.style.background = `var(--${part.colour})`;
      piece.title = `${part.text}: ${units.time(part.length)}`;
      bar.append(piece);
    }
    for (const part of shown.parts.slice(0, MOST_PARTS)) {
      const row = element("li");
      const mark = element("i");
      mark.style.background = `var(--${part.colour})`;
      row.append(mark, `${units.time(part.length)}  ${units.percent(part.length, length)}  ${part.text}`);
      list.append(row);
    }
    const more = shown.parts.slice(MOST_PARTS);
    if (more.length > 0) list.append(element("li", `${units.time(more.reduce((sum, part) => sum + part.length, 0))}  ${more.length} more parts`));
    const chain = element("ol", undefined, "chain");
    rows = [];
    // The longest ones, in order of time.
    const ranks = [...shown.chain.keys()].sort((a, b) => shown.chain[b].to - shown.chain[b].from - (shown.chain[a].to - shown.chain[a].from));
    const listed = new Set(ranks.slice(0, MOST_LINKS));
    shown.chain.forEach((link, place) => {
      if (!listed.has(place)) return;
      const row = element("li");
      const act = element("button", `${units.time(link.to - link.from)}  ${fx.select.threadName(link.thread)} ${describe(link)}`);
      act.type = "button";
      act.style.marginLeft = `${Math.min(link.depth, 6) * 10}px`;
      act.addEventListener("click", () => go(place));
      row.append(act);
      rows[place] = row;
      chain.append(row);
    });
    box.append(element("h4", `Where the ${units.time(length)} went`), bar, list, element("h4", "What it waited for, in order"), chain);
    if (shown.chain.length > listed.size) box.append(element("p", `${units.count(shown.chain.length - listed.size)} shorter links are not listed`, "hint"));
  }

  let request = 0;

  // Explains a stretch of a thread's time in an element of the panel.
  async function show(box, thread, from, to) {
    clear();
    const mine = request;
    // The text of links contains function names.
    const [found] = await Promise.all([explain(thread, from, to), fx.stacks?.load()]);
    if (mine !== request) return;
    shown = found;
    write(box);
    view.changed();
  }

  function clear() {
    request += 1;
    shown = null;
    current = -1;
    rows = [];
  }

  // The chain as a path through the lanes.
  function paint(context) {
    if (shown === null) return;
    const middle = (link) => {
      const row = fx.lanes.find("thread", link.thread);
      return row ? row.y - view.scroll + fx.lanes.THREAD_HEIGHT / 2 : null;
    };
    const line = (width, colour, list) => {
      context.lineWidth = width;
      context.strokeStyle = fx.colours.get(colour);
      context.lineJoin = context.lineCap = "round";
      context.beginPath();
      let before = null;
      for (const link of list) {
        const y = middle(link);
        const [left, right] = [Math.max(view.x(link.from), -9), Math.min(view.x(link.to), view.width + 9)];
        if (y === null || right < -8 || left > view.width + 8) {
          before = null;
          continue;
        }
        if (before === null) context.moveTo(left, y);
        else context.lineTo(left, y);
        context.lineTo(right, y);
        before = link;
      }
      context.stroke();
    };
    // A chain with a single link is the same as the selection.
    if (shown.chain.length > 1) {
      line(7, "lane", shown.chain);
      line(3, "accent", shown.chain);
    }
    if (current >= 0) {
      line(11, "lane", [shown.chain[current]]);
      line(7, "accent", [shown.chain[current]]);
    }
  }

  fx.why = {
    explain,
    show,
    clear,
    paint,
    step: (by) => go(current < 0 ? (by > 0 ? 0 : Infinity) : current + by),
    shown: () => shown && { thread: shown.thread, from: shown.from, to: shown.to, parts: shown.parts, chain: shown.chain.map(({ inside, tenants, taken, ...link }) => link), current },
  };
})();
