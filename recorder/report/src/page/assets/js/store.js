// Unpacked blocks. Requested blocks are unpacked one after the other, and then the page is drawn again.

(() => {
  // The maximum number of tiles and chunks that are kept; the least recently used ones are dropped.
  const KEPT = 96;
  const ready = new Map();
  const wanted = new Map();
  const loading = new Map();
  let changed = () => {};
  let busy = false;
  let tilesUnfolded = 0;

  // Represents a tile that is not in the page.
  const absent = ({ from, to }) => ({ out: true, cpus: new Map(), threads: new Map(), wakes: { time: [], thread: [], waker: [], cpu: [] }, moves: new Map(), inferred: new Set(), spans: new Map(), from, to });

  const loaders = {
    async tile(index) {
      if (fx.trace.tiles[index].out) return absent(fx.trace.tiles[index]);
      const tile = fx.trace.tiles[index];
      const empty = { cpus: new Map(), threads: new Map(), wakes: { time: [], thread: [], waker: [], cpu: [] }, moves: new Map(), inferred: new Set() };
      const events = tile.block === null ? empty : fx.unfold.events(tile, await fx.blocks.columns(tile.block));
      const spans = tile.spans === null ? new Map() : fx.unfold.spans(await fx.blocks.columns(tile.spans), tile.from);
      tilesUnfolded += 1;
      return { ...events, spans, from: tile.from, to: tile.to };
    },
    async chunk(level, index) {
      const { width, chunks } = fx.trace.levels[level];
      const [block, spanBlock] = chunks[index];
      const length = width * fx.trace.chunk;
      const from = index * length;
      const bins = fx.bins.chunk(await fx.blocks.columns(block));
      const spans = spanBlock === null ? new Map() : fx.unfold.spans(await fx.blocks.columns(spanBlock), from);
      return { ...bins, spans, width, from, to: Math.min(from + length, fx.trace.length) };
    },
  };

  const key = (kind, ...numbers) => `${kind} ${numbers.join(" ")}`;

  // Unpacks it once; concurrent requests wait for the same result.
  async function load(kind, numbers) {
    const name = key(kind, ...numbers);
    if (ready.has(name)) return ready.get(name);
    if (!loading.has(name)) loading.set(name, loaders[kind](...numbers));
    const found = await loading.get(name);
    loading.delete(name);
    ready.set(name, found);
    const oldest = ready.keys();
    // Level 0 stays, since it is the fallback for drawing.
    for (let excess = ready.size - KEPT; excess > 0; excess--) {
      const next = oldest.next().value;
      if (next !== "chunk 0 0") ready.delete(next);
    }
    return found;
  }

  async function work() {
    busy = true;
    while (wanted.size > 0) {
      // The tile that was requested last is in view.
      const [name, [kind, numbers]] = [...wanted].at(-1);
      wanted.delete(name);
      await load(kind, numbers);
      changed();
    }
    busy = false;
  }

  // Returns the tile or chunk if it is unpacked; else requests it.
  function get(kind, ...numbers) {
    const name = key(kind, ...numbers);
    const found = ready.get(name);
    if (found) {
      ready.delete(name);
      ready.set(name, found);
      return found;
    }
    wanted.set(name, [kind, numbers]);
    if (!busy) work();
    return null;
  }

  fx.store = {
    tile: (index) => get("tile", index),
    chunk: (level, index) => get("chunk", level, index),
    // The tile, if it is already unpacked.
    peekTile: (index) => ready.get(key("tile", index)) ?? null,
    // The same as a promise.
    loadTile: (index) => load("tile", [index]),
    loadChunk: (level, index) => load("chunk", [level, index]),
    // Data that is not in view any more need not be unpacked.
    forget: () => wanted.clear(),
    onChange: (call) => (changed = call),
    isIdle: () => !busy,
    tilesUnfolded: () => tilesUnfolded,
  };
})();
