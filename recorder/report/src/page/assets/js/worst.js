// Incidents, the longest blocked times and the longest spans: one line each, with a link to it.

(() => {
  const { trace, units } = fx;
  // Each row of both tables, with its thread.
  const rows = [];

  // Shows a stretch of time, and the thread's state in it.
  async function jump(row, { thread, track, from, to, span }) {
    for (const other of document.querySelectorAll("#incidents li, #blocked tr, #longest tr")) other.removeAttribute("aria-current");
    row.setAttribute("aria-current", "true");
    fx.view.around(from, to);
    if (track) {
      fx.lanes.bring("track", track.index);
      await fx.select.pickSpanAt(track.index, from, to);
    } else if (thread) {
      fx.lanes.bring("thread", thread.index);
      // The span itself is selected, if it is drawn.
      if (!span || !(await fx.select.pickSpanAt(thread.index, from, to))) await fx.select.pick("thread", thread.index, from);
    }
  }

  // Fills a table, the longest first: each row has a thread or a track, its name, a time, a text, and perhaps the
  // waker.
  function fill(id, list) {
    const body = document.getElementById(id);
    const table = body.parentElement;
    table.hidden = table.previousElementSibling.hidden = list.length === 0;
    const longest = Math.max(list[0]?.to - list[0]?.from, 1);
    for (const one of list) {
      const { name, from, to, text, by } = one;
      const row = body.insertRow();
      rows.push([row, one]);
      const bar = row.insertCell();
      bar.className = "number bar whole";
      bar.style.setProperty("--share", `${(100 * (to - from)) / longest}%`);
      bar.textContent = units.time(to - from);
      const who = document.createElement("button");
      who.type = "button";
      who.textContent = name;
      who.title = "Show this time";
      row.insertCell().append(who);
      one.cell = row.insertCell();
      one.cell.textContent = text;
      const at = row.insertCell();
      at.className = "whole";
      at.textContent = units.moment(from, 1e3);
      if (by !== undefined) {
        const cell = row.insertCell();
        cell.textContent = by;
        // Shown before the value if the table has no header.
        cell.dataset.label = "woken by";
      }
      row.addEventListener("click", () => jump(row, one));
    }
  }

  // Lists the incidents, a sentence each.
  function list() {
    const box = document.getElementById("incidents");
    box.hidden = trace.incidents.length === 0;
    for (const { who, from, to, sentence } of trace.incidents) {
      const line = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = sentence;
      button.title = `Show this time: ${units.moment(from, 1e3)}`;
      button.addEventListener("click", () => jump(line, { thread: trace.byKoid.get(who[0]), from, to }));
      line.append(button);
      box.querySelector("ol").append(line);
    }
  }

  function build() {
    list();
    fill("blocked", trace.blocked.map(({ who, from, to, syscall, object, uninterruptible, waker, interrupt }) => ({
      thread: trace.byKoid.get(who[0]),
      name: fx.waits.name(who),
      from,
      to,
      text: [[syscall, object].filter(Boolean).join(" on "), uninterruptible && "uninterruptible"].filter(Boolean).join(", ") || "–",
      by: waker ? fx.waits.name(waker) : interrupt ? "an interrupt or a timer" : "–",
    })));
    fill("longest", trace.longestSpans.map(([index, name, from, to]) => ({
      thread: trace.threads[index],
      track: trace.tracks[index - trace.threads.length],
      name: trace.threads[index] ? fx.select.threadName(index) : trace.tracks[index - trace.threads.length].category,
      from,
      to,
      text: trace.names[name],
      span: true,
    })));
  }

  // Shows where in the code blocked times were, as soon as that is known.
  function locate() {
    for (const [, { thread, from, by, text, cell }] of rows) {
      const where = by !== undefined && thread ? fx.stacks.innermost(thread.index, from) : "";
      if (where) cell.textContent = text === "–" ? where : `${where} (${text})`;
    }
  }

  // Keeps the rows that match the search: by thread, by function for blocked times, by name for operations.
  function filter() {
    for (const [row, { thread, track, from, text }] of rows) {
      if (track) row.hidden = !fx.lanes.isNamed({ name: text });
      else row.hidden = thread !== undefined && !fx.lanes.isNamed(thread) && !fx.stacks?.isMarked(thread.index, from);
    }
  }

  fx.worst = { build, filter, locate };
})();
