// The longest waits: one row each, with a link to it.

(() => {
  const { trace, units } = fx;
  const body = document.getElementById("waits");
  const rows = [];
  let shown = -1;

  function name([koid, comm]) {
    const thread = trace.byKoid.get(koid);
    return `${comm || thread?.name || `[${koid}]`} ${thread ? thread.tid : koid}`;
  }

  // The threads that had the CPU meanwhile: parts that sum up to the wait.
  function antagonists(wait, most) {
    const parts = wait.by.slice(0, most).map(([who, ran]) => `${name(who)} ${units.time(ran)}`);
    const rest = wait.by.slice(most);
    const more = rest.length + wait.more;
    const others = rest.reduce((sum, [, ran]) => sum + ran, wait.others);
    if (more > 0) parts.push(`${more} more ${units.time(others)}`);
    if (wait.idle > 0) parts.push(`idle ${units.time(wait.idle)}`);
    if (wait.unknown > 0) parts.push(`unknown ${units.time(wait.unknown)}`);
    if (wait.throttled > 0) parts.push(`also throttled${wait.quota ? ` by ${wait.quota}` : ""} ${units.time(wait.throttled)}`);
    return parts.join(", ") || "–";
  }

  // Shows a wait: the stretch of time, and the thread that waited.
  async function jump(place) {
    const wait = trace.worst[place];
    if (!wait) return;
    rows[shown]?.removeAttribute("aria-current");
    shown = place;
    rows[place].setAttribute("aria-current", "true");
    fx.view.around(wait.from, wait.to);
    const thread = trace.byKoid.get(wait.who[0]);
    if (thread) {
      fx.lanes.bring("thread", thread.index);
      await fx.select.pick("thread", thread.index, wait.from);
    }
  }

  function build() {
    if (trace.worst.length === 0) {
      const row = body.insertRow();
      const cell = row.insertCell();
      cell.colSpan = 7;
      cell.className = "hint";
      cell.textContent = "No thread of this trace waited for a CPU.";
      return;
    }
    // The time that a quota held it back does not count as waiting.
    const waited = (wait) => wait.to - wait.from - wait.throttled;
    const longest = Math.max(waited(trace.worst[0]), 1);
    trace.worst.forEach((wait, place) => {
      const row = body.insertRow();
      rows.push(row);
      const length = waited(wait);
      const who = document.createElement("button");
      who.type = "button";
      who.textContent = name(wait.who);
      who.title = "Show this wait";
      const bar = row.insertCell();
      bar.className = "number bar whole";
      bar.style.setProperty("--share", `${(100 * length) / longest}%`);
      bar.textContent = units.time(length);
      row.insertCell().append(who);
      const moved = wait.ran === wait.queued ? "" : ` → ${wait.ran}`;
      const cells = [
        [antagonists(wait, 2)],
        [units.moment(wait.from, 1e3), "whole"],
        [`${wait.queued}${moved}`, "whole", "CPU"],
        [wait.waker ? name(wait.waker) : "–", "", "woken by"],
        [wait.metric === "wakeup" ? "wakeup" : "preemption", "whole"],
      ].map(([text, className = "", label]) => {
        const cell = row.insertCell();
        cell.textContent = cell.title = text;
        cell.className = className;
        // Shown before the value if the table has no header.
        if (label) cell.dataset.label = label;
        return cell;
      });
      cells[0].title = antagonists(wait, wait.by.length);
      row.addEventListener("click", () => jump(place));
    });
  }

  // Keeps only the waits of threads that the search finds.
  function filter() {
    rows.forEach((row, place) => {
      const thread = trace.byKoid.get(trace.worst[place].who[0]);
      row.hidden = thread !== undefined && !fx.lanes.fits(thread.index);
    });
  }

  // Goes to the next or the previous remaining row, cyclically.
  function step(by) {
    const left = [...rows.keys()].filter((place) => !rows[place].hidden);
    if (left.length === 0) return undefined;
    const at = left.indexOf(shown);
    return jump(left[at < 0 ? (by > 0 ? 0 : left.length - 1) : (at + by + left.length) % left.length]);
  }

  fx.waits = {
    build,
    jump,
    filter,
    step,
    shown: () => shown,
    name,
  };
})();
