// Search by thread and, if there are stacks, by function: only matching lanes stay, and Enter goes to the first one.

(() => {
  const field = document.getElementById("search");
  const found = document.getElementById("found");

  function look() {
    const text = field.value.trim().toLowerCase();
    const waits = fx.stacks?.search(text) ?? null;
    const count = fx.lanes.filterBy(text);
    fx.waits.filter();
    fx.worst.filter();
    const words = [`${fx.units.count(count)} ${count === 1 ? "thread" : "threads"}`];
    if (waits > 0) words.push(`in ${fx.units.count(waits)} ${waits === 1 ? "wait" : "waits"}`);
    found.textContent = text === "" ? "" : words.join(", ");
  }

  // Called when more data can be searched.
  function again() {
    if (field.value.trim() !== "") look();
  }

  // Searches for a text; if it is empty, lists all threads.
  function show(text) {
    field.value = text;
    look();
  }

  function key(event) {
    if (event.key === "Escape") {
      show("");
      document.getElementById("lanes").focus();
    } else if (event.key === "Enter") {
      const first = fx.lanes.all().find((row) => row.kind === "thread");
      if (first) {
        fx.lanes.reveal(first);
        document.getElementById("lanes").focus();
      }
    } else {
      return;
    }
    event.preventDefault();
  }

  function listen() {
    if (fx.stacks) field.placeholder = "Search threads, functions  /";
    field.addEventListener("input", look);
    field.addEventListener("keydown", key);
    document.getElementById("order").addEventListener("change", (event) => fx.lanes.orderBy(event.target.value));
  }

  fx.search = { listen, show, again };
})();
