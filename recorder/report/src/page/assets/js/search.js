// Search by thread: only lanes that fit stay, Enter goes to the first of them.

(() => {
  const field = document.getElementById("search");
  const found = document.getElementById("found");

  function look() {
    const count = fx.lanes.filterBy(field.value);
    fx.waits.filter();
    fx.worst.filter();
    found.textContent = field.value.trim() === "" ? "" : `${fx.units.count(count)} ${count === 1 ? "thread" : "threads"}`;
  }

  // Searches for a text; for none, all threads are listed again.
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
    field.addEventListener("input", look);
    field.addEventListener("keydown", key);
    document.getElementById("order").addEventListener("change", (event) => fx.lanes.orderBy(event.target.value));
  }

  fx.search = { listen, show };
})();
