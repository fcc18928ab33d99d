// Stacks: of waits, of their wakers, and of moments on a CPU. Unpacked once, after the first frame; pages of traces
// without stacks do not have this script.

(() => {
  const { trace, units, view } = fx;
  const { lastAt } = fx.unfold;
  const about = trace.stacks;
  const KERNEL = 1;
  // Shorter texts match too many names.
  const SHORTEST = 3;
  // The maximum number of functions of a stack that are listed at once.
  const LISTED = 14;
  let table = null;
  let loading = null;
  // The result of the search: for each stack whether it has a matching function, and the threads with such waits.
  let found = null;

  function numbers(column, first = 0) {
    const list = Array.from({ length: first }, () => 0);
    while (column.more) list.push(column.number());
    return list;
  }

  // Decodes times of threads, each relative to the previous one: calls `call` with index, thread and time.
  function eachTime(threads, times, call) {
    let thread = 0;
    let time = 0;
    for (let place = 0; threads.more; place++) {
      const step = threads.number();
      if (step > 0) time = 0;
      thread += step;
      time += times.number();
      call(place, thread, time);
    }
  }

  // For each thread, the range of indexes of its entries.
  function ranges(threads) {
    const of = new Map();
    threads.forEach((thread, place) => {
      const range = of.get(thread);
      if (range) range[1] = place + 1;
      else of.set(thread, [place, place + 1]);
    });
    return of;
  }

  async function unpack() {
    const [frames, waits, samples] = await Promise.all(about.blocks.map(fx.blocks.columns));
    const names = fx.blocks.texts(frames[0]);
    const files = ["", "kernel", ...fx.blocks.texts(frames[1])];
    const [frameName, frameFile] = [numbers(frames[2]), numbers(frames[3])];
    // Node numbers start at 1.
    const callers = numbers(frames[4], 1).map((back, node) => node - back);
    const [frameOf, stackNode, stackLacks] = [numbers(frames[5], 1), numbers(frames[6]), numbers(frames[7])];
    const wait = { thread: new Uint32Array(about.waits), begin: new Float64Array(about.waits), end: new Float64Array(about.waits), stack: new Uint32Array(about.waits), wake: new Int32Array(about.waits) };
    eachTime(waits[0], waits[1], (place, thread, time) => {
      wait.thread[place] = thread;
      wait.begin[place] = time;
      wait.end[place] = time + waits[2].number();
      wait.stack[place] = waits[3].number();
      wait.wake[place] = waits[4].number() - 1;
    });
    const sample = { thread: new Uint32Array(about.samples), time: new Float64Array(about.samples), stack: new Uint32Array(about.samples) };
    eachTime(samples[0], samples[1], (place, thread, time) => {
      sample.thread[place] = thread;
      sample.time[place] = time;
      sample.stack[place] = samples[2].number();
    });
    table = { names, files, frameName, frameFile, callers, frameOf, stackNode, stackLacks, wait, sample, waitsOf: ranges(wait.thread), samplesOf: ranges(sample.thread) };
    fx.worst.locate();
    fx.search.again();
    view.changed();
  }

  const load = () => (loading ??= unpack());

  // The wait of a thread that contains a time, or ends then, if it has a stack; else -1.
  function waitAt(thread, time) {
    const range = table?.waitsOf.get(thread);
    if (!range) return -1;
    const place = lastAt(table.wait.begin, time, ...range);
    return place >= range[0] && time <= table.wait.end[place] ? place : -1;
  }

  const nameOf = (node) => table.names[table.frameName[table.frameOf[node]]];
  const fileOf = (node) => table.frameFile[table.frameOf[node]];

  // The functions of a stack, the innermost first.
  function functions(stack) {
    const list = [];
    for (let node = table.stackNode[stack]; node > 0; node = table.callers[node]) list.push({ node, name: nameOf(node), file: table.files[fileOf(node)], kernel: fileOf(node) === KERNEL });
    return list;
  }

  const lacks = (stack) => about.lacks.filter(([bit]) => (table.stackLacks[stack] & bit) !== 0).map(([, text]) => text);

  // The code where a thread waited, for a wait that began at this time: its innermost function outside of the kernel.
  function innermost(thread, begin) {
    const place = waitAt(thread, begin);
    if (place < 0 || table.wait.begin[place] !== begin) return "";
    const list = functions(table.wait.stack[place]);
    const own = list.find(({ kernel }) => !kernel) ?? list[0];
    return own?.name ?? "";
  }

  function hint(thread, begin) {
    const name = innermost(thread, begin);
    return name ? ` in ${name}` : "";
  }

  const element = fx.select.element;

  // A stack as a list, under a heading.
  function write(box, title, stack) {
    const list = functions(stack);
    const shown = element("ol", undefined, "stack");
    const add = ({ name, file, kernel }) => {
      const row = element("li", undefined, kernel ? "kernel" : "");
      row.append(element("span", name, isFound(name) ? "found" : ""), " ", element("small", file));
      shown.append(row);
    };
    list.slice(0, LISTED).forEach(add);
    box.append(element("h4", title), shown);
    const rest = list.slice(LISTED);
    if (rest.length > 0) {
      const more = element("button", `${rest.length} more`);
      more.type = "button";
      more.addEventListener("click", () => {
        rest.forEach(add);
        more.remove();
      });
      box.append(more);
    }
    const missing = lacks(stack);
    if (list.length === 0) missing.unshift("no frame of it was recorded");
    if (missing.length > 0) box.append(element("p", `It is incomplete: ${missing.join("; ")}`, "hint"));
  }

  // The text if a blocked time has no stack here.
  function none(start, end) {
    if (about.leftOut[0] > 0 && end - start <= about.leftOut[1]) return "its stack, if it has one, was left out to limit the size of the page";
    return end - start < about.over ? `stacks are recorded for waits of ${units.time(about.over)} or more` : "none was recorded for this wait";
  }

  // The most frequent stack among the samples of a stretch, and its number of samples.
  function sampled(thread, from, to) {
    const range = table.samplesOf.get(thread);
    if (!range) return null;
    const counts = new Map();
    let all = 0;
    for (let place = lastAt(table.sample.time, from - 1, ...range) + 1; place < range[1] && table.sample.time[place] <= to; place++) {
      const stack = table.sample.stack[place];
      counts.set(stack, (counts.get(stack) ?? 0) + 1);
      all += 1;
    }
    const [most] = [...counts].sort((a, b) => b[1] - a[1]);
    return most ? { stack: most[0], count: most[1], all } : null;
  }

  // Shows the stacks of the selection in a part of the panel.
  async function show(box, { thread, state, start, end, wake }) {
    await load();
    if (!box.isConnected) return;
    if (state === fx.unfold.STATE.RUNNING) {
      const found = sampled(thread, start, end);
      if (found) write(box, found.all === 1 ? "Where it ran" : `Where it ran (${found.count} of ${found.all} samples)`, found.stack);
      return;
    }
    const isBlocked = state >= fx.unfold.STATE.SLEEPING && state <= 9;
    const place = waitAt(thread, isBlocked ? start : (wake?.time ?? -1));
    const fits = place >= 0 && (isBlocked ? table.wait.begin[place] === start : table.wait.end[place] === wake?.time);
    if (!fits) {
      if (isBlocked) box.append(element("h4", "Where it was blocked"), element("p", none(start, end), "hint"));
      return;
    }
    write(box, isBlocked ? "Where it was blocked" : "Where it had been blocked", table.wait.stack[place]);
    if (table.wait.wake[place] >= 0) write(box, "Where it was woken from", table.wait.wake[place]);
  }

  // Searches for functions whose name contains a text, given in lower case. Returns the number of waits with such a
  // function; null if the text is empty.
  function search(text) {
    found = null;
    if (text.length < SHORTEST) return null;
    if (table === null) {
      load();
      return null;
    }
    const names = table.names.map((name) => name.toLowerCase().includes(text));
    const nodes = new Uint8Array(table.callers.length);
    for (let node = 1; node < nodes.length; node++) nodes[node] = names[table.frameName[table.frameOf[node]]] || nodes[table.callers[node]] ? 1 : 0;
    const stacks = table.stackNode.map((node) => nodes[node]);
    const threads = new Set();
    let waits = 0;
    table.wait.stack.forEach((stack, place) => {
      if (!stacks[stack]) return;
      waits += 1;
      threads.add(table.wait.thread[place]);
    });
    table.sample.stack.forEach((stack, place) => stacks[stack] && threads.add(table.sample.thread[place]));
    found = { text, stacks, threads, waits };
    return waits;
  }

  const isFound = (name) => found !== null && name.toLowerCase().includes(found.text);

  const hasFound = (stack) => found !== null && found.stacks[stack] === 1;

  // Whether a wait has a function that matches the search.
  function isMarked(thread, begin) {
    if (found === null) return false;
    const place = waitAt(thread, begin);
    return place >= 0 && table.wait.begin[place] === begin && found.stacks[table.wait.stack[place]] === 1;
  }

  // Calls `call` for each wait of a thread in a stretch that has a function that matches the search.
  function eachMarked(thread, from, to, call) {
    const range = found && found.threads.has(thread) ? table.waitsOf.get(thread) : null;
    if (!range) return;
    for (let place = Math.max(lastAt(table.wait.begin, from, ...range), range[0]); place < range[1] && table.wait.begin[place] < to; place++) {
      if (found.stacks[table.wait.stack[place]] && table.wait.end[place] > from) call(table.wait.begin[place], table.wait.end[place]);
    }
  }

  // The parts that were left out of the page, in words.
  function leftOut() {
    const list = [];
    if (about.leftOut[0] > 0) list.push(`${units.counted(about.leftOut[0], "wait", "waits")} of ${units.time(about.leftOut[1])} or less ${about.leftOut[0] === 1 ? "is" : "are"} left out to limit the size of the page`);
    if (about.every > 1) list.push(`of ${about.every} samples the page has one`);
    if (about.homeless > 0) list.push(`${units.count(about.homeless)} ${about.homeless === 1 ? "stack belongs" : "stacks belong"} to no wait that is known`);
    return list;
  }

  fx.stacks = { about, load, table: () => table, nameOf, fileOf, KERNEL, show, innermost, hint, search, isFound, hasFound, isMarked, eachMarked, leftOut, has: (thread) => found?.threads.has(thread) ?? false };
})();
