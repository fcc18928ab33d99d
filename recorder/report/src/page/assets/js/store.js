// What has been unpacked. What is asked for and not there yet is fetched, one
// block after the other, and the page drawn again when it has come.

(() => {
  // Tiles and chunks kept at most; the ones used least recently go first.
  const KEPT = 96;
  const ready = new Map();
  const wanted = new Map();
  const loading = new Map();
  let changed = () => {};
  let busy = false;
  let tilesUnfolded = 0;

  // Stands for a tile that is not in the page. Whoever gets it says so.
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

  // Unpacks it, once: who asks meanwhile waits for the same.
  async function load(kind, numbers) {
    const name = key(kind, ...numbers);
    if (ready.has(name)) return ready.get(name);
    if (!loading.has(name)) loading.set(name, loaders[kind](...numbers));
    const found = await loading.get(name);
    loading.delete(name);
    ready.set(name, found);
    const oldest = ready.keys();
    // Level 0 stays: it is what there is to draw when nothing else is.
    for (let excess = ready.size - KEPT; excess > 0; excess--) {
      const next = oldest.next().value;
      if (next !== "chunk 0 0") ready.delete(next);
    }
    return found;
  }

  async function work() {
    busy = true;
    while (wanted.size > 0) {
      // The last asked for is the one being looked at.
      const [name, [kind, numbers]] = [...wanted].at(-1);
      wanted.delete(name);
      await load(kind, numbers);
      changed();
    }
    busy = false;
  }

  // The tile or chunk if it is there; else it is fetched.
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
    // The tile if it is there.
    peekTile: (index) => ready.get(key("tile", index)) ?? null,
    // The same, to wait for.
    loadTile: (index) => load("tile", [index]),
    loadChunk: (level, index) => load("chunk", [level, index]),
    // What is no longer in view need not be fetched.
    forget: () => wanted.clear(),
    onChange: (call) => (changed = call),
    isIdle: () => !busy,
    tilesUnfolded: () => tilesUnfolded,
  };
})();
