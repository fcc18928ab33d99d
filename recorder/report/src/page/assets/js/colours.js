// Colours from the style sheet, and the choice of light or dark.

(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const KEY = "fxtrec-theme";
  const HUES = 12;
  let cache = new Map();
  let hatches = new Map();
  let changed = () => {};

  // The choice of the last visit. A page opened from disk may not be allowed to store it.
  function remembered() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  }

  function apply(theme) {
    root.dataset.theme = theme;
    cache = new Map();
    hatches = new Map();
    changed();
  }

  function toggle() {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // Then the choice lasts only until the page is closed.
    }
    apply(theme);
    return theme;
  }

  // The colour `--name` of the style sheet.
  function get(name) {
    let colour = cache.get(name);
    if (colour === undefined) {
      colour = getComputedStyle(root).getPropertyValue(`--${name}`).trim();
      cache.set(name, colour);
    }
    return colour;
  }

  // The colour of a thread on CPUs; the selected thread stands out.
  function ofThread(index) {
    if (index === 0) return get("idle");
    if (index === fx.select.selected()?.thread) return get("chosen");
    // Neighbouring numbers get colours that are far apart.
    return get(`hue-${(index * 7) % HUES}`);
  }

  // Diagonal lines, for unknown time.
  function hatch(context, name) {
    let pattern = hatches.get(name);
    if (pattern) return pattern;
    const size = 8;
    const tile = new OffscreenCanvas(size, size);
    const draw = tile.getContext("2d");
    draw.strokeStyle = get(name);
    draw.lineWidth = 1.5;
    draw.beginPath();
    for (const shift of [-size, 0, size]) {
      draw.moveTo(shift - 1, size + 1);
      draw.lineTo(shift + size + 1, -1);
    }
    draw.stroke();
    pattern = context.createPattern(tile, "repeat");
    hatches.set(name, pattern);
    return pattern;
  }

  apply(remembered() ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", () => {
    if (!remembered()) apply(system.matches ? "dark" : "light");
  });

  fx.colours = { get, ofThread, hatch, toggle, onChange: (call) => (changed = call), theme: () => root.dataset.theme };
})();
