// The ruler above the lanes, and the overview of the whole trace above it.

(() => {
  const view = fx.view;
  const ruler = document.getElementById("ruler");
  const overview = document.getElementById("overview");
  // The room for a label, in pixels.
  const LABEL = 110;

  function step() {
    const wanted = view.perPixel() * LABEL;
    const unit = 10 ** Math.floor(Math.log10(wanted));
    return Math.max(unit * ([1, 2, 5, 10].find((factor) => factor * unit >= wanted) ?? 10), 1);
  }

  function eachTick(call) {
    const distance = step();
    for (let tick = Math.ceil(view.from / distance); tick * distance <= view.to; tick++) {
      call(tick * distance, Math.round(view.x(tick * distance)) + 0.5, distance);
    }
  }

  function grid(context, height) {
    context.strokeStyle = fx.colours.get("grid");
    context.lineWidth = 1;
    context.beginPath();
    eachTick((_, x) => {
      context.moveTo(x, 0);
      context.lineTo(x, height);
    });
    context.stroke();
  }

  function prepare(canvas) {
    const box = canvas.parentElement.getBoundingClientRect();
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(box.width * scale);
    canvas.height = Math.round(box.height * scale);
    canvas.style.width = `${box.width}px`;
    canvas.style.height = `${box.height}px`;
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, box.width, box.height);
    return [context, box.width, box.height];
  }

  function paintRuler() {
    const [context, width, height] = prepare(ruler);
    context.font = `11px ${fx.colours.get("sans")}`;
    context.textBaseline = "middle";
    context.fillStyle = fx.colours.get("faint");
    context.strokeStyle = fx.colours.get("grid");
    context.beginPath();
    eachTick((time, x, distance) => {
      context.moveTo(x, height - 6);
      context.lineTo(x, height);
      const label = fx.units.moment(time, distance);
      // A label without enough room would be cut.
      const fits = x + 4 >= 0 && x + 4 + context.measureText(label).width <= width;
      if (fits) context.fillText(label, x + 4, height / 2);
    });
    context.stroke();
  }

  // The load of all CPUs together, for each bin of the coarsest level.
  let load = null;

  async function learn() {
    const chunk = await fx.store.loadChunk(0, 0);
    load = new Float32Array(fx.trace.chunk);
    const waiting = new Float32Array(fx.trace.chunk);
    const sum = (into, lane, shares) => {
      let bin = 0;
      for (let run = 0; run < lane.end.length; run++) {
        for (; bin < lane.end[run]; bin++) into[bin] += shares[run] / 15;
      }
    };
    for (const lane of chunk.cpus.values()) sum(load, lane, lane.busy);
    for (const lane of chunk.threads.values()) sum(waiting, lane, lane.waiting);
    load.waiting = waiting;
    paintOverview();
  }

  function paintOverview() {
    const [context, width, height] = prepare(overview);
    const { length } = fx.trace;
    const bins = Math.min(Math.ceil(length / fx.trace.levels[0].width), fx.trace.chunk);
    const cpus = Math.max(fx.trace.cpus.length, 1);
    if (load !== null) {
      const most = Math.max(1, ...load.waiting.map((value) => value / cpus));
      const scaleX = width / bins;
      for (const [values, colour, top] of [
        [load, "running", 1],
        [load.waiting, "waiting", Math.min(most, 4)],
      ]) {
        context.fillStyle = fx.colours.get(colour);
        context.globalAlpha = colour === "running" ? 0.55 : 0.9;
        for (let x = 0; x < width; x++) {
          const from = Math.floor(x / scaleX);
          const to = Math.max(Math.ceil((x + 1) / scaleX), from + 1);
          let sum = 0;
          for (let bin = from; bin < to; bin++) sum += values[bin] ?? 0;
          const share = Math.min(sum / (to - from) / cpus / top, 1);
          const size = share * (height - 4) * (colour === "running" ? 1 : 0.5);
          context.fillRect(x, height - size, 1, size);
        }
      }
      context.globalAlpha = 1;
    }
    for (const gap of fx.trace.gaps) {
      context.fillStyle = fx.colours.get("gap-line");
      context.fillRect((gap.from / length) * width, 0, Math.max(((gap.to - gap.from) / length) * width, 2), height);
    }
    // The ranges in which the page has exact events, if it does not have them everywhere.
    if (fx.trace.kept.length < fx.trace.tiles.length) {
      context.fillStyle = fx.colours.get("accent");
      for (const index of fx.trace.kept) {
        const { from, to } = fx.trace.tiles[index];
        context.fillRect((from / length) * width, height - 2, Math.max(((to - from) / length) * width, 1), 2);
      }
    }
    const left = (view.from / length) * width;
    const right = Math.max((view.to / length) * width, left + 3);
    context.fillStyle = fx.colours.get("shade");
    context.fillRect(0, 0, left, height);
    context.fillRect(right, 0, width - right, height);
    context.strokeStyle = fx.colours.get("accent");
    context.lineWidth = 1.5;
    context.strokeRect(left + 0.75, 0.75, Math.max(right - left - 1.5, 1), height - 1.5);
    overview.parentElement.setAttribute("aria-valuenow", String(Math.round((100 * (view.from + view.to)) / 2 / length)));
    overview.parentElement.setAttribute("aria-valuetext", `${fx.units.moment(view.from, view.perPixel())} to ${fx.units.moment(view.to, view.perPixel())}`);
  }

  fx.ruler = {
    grid,
    learn,
    paint: () => {
      paintRuler();
      paintOverview();
    },
  };
})();
