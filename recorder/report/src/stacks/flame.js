// Zoom and search of a flame graph. The places of all functions are in their data attributes.
"use strict";
const WIDTH = 1200, LETTER = 6.6;
const all = [...document.querySelectorAll("g")];
const hint = document.getElementById("hint"), hinted = hint.textContent;
const of = (g, key) => Number(g.dataset[key]);

function zoom(to) {
  const left = of(to, "x"), scale = WIDTH / of(to, "w");
  for (const g of all) {
    const x = (of(g, "x") - left) * scale, width = of(g, "w") * scale;
    const begin = Math.max(x, 0), end = Math.min(x + width, WIDTH);
    g.style.display = end - begin > 0.2 ? "" : "none";
    const [rect, text] = [g.querySelector("rect"), g.querySelector("text")];
    rect.setAttribute("x", begin);
    rect.setAttribute("width", Math.max(end - begin, 0));
    text.setAttribute("x", begin + 2);
    const fits = Math.floor((end - begin) / LETTER), name = g.dataset.n;
    text.textContent = name.length <= fits ? name : fits < 3 ? "" : name.slice(0, fits - 1) + "…";
  }
}

function search(part) {
  let found = 0;
  for (const g of all) {
    const has = part !== "" && g.dataset.n.includes(part);
    g.classList.toggle("found", has);
    found += has;
  }
  hint.textContent = part === "" ? hinted : found + " with \"" + part + "\"";
}

for (const g of all) g.addEventListener("click", () => zoom(g));
document.addEventListener("keydown", (event) => {
  if (event.key !== "/") return;
  event.preventDefault();
  search(prompt("Functions whose name contains") ?? "");
});
