// The latency histogram and the percentile plot, drawn by uPlot.

(() => {
  const { units, trace } = fx;
  // Bars for each factor of ten.
  const BARS = 8;
  // Distances between marks of counts, which are whole.
  const COUNTS = Array.from({ length: 45 }, (_, at) => [1, 2, 5][at % 3] * 10 ** Math.floor(at / 3));
  // Pixels next to the chart, for half of the last label.
  const BESIDE = 40;
  const choice = document.getElementById("metric");
  const figures = document.getElementById("figures");
  const places = { histogram: document.getElementById("histogram"), percentile: document.getElementById("percentile") };
  const shown = { histogram: null, percentile: null, bars: 0, points: 0 };
  let metric = 0;

  const axis = (more) => ({
    stroke: fx.colours.get("faint"),
    grid: { stroke: fx.colours.get("grid"), width: 1 },
    ticks: { stroke: fx.colours.get("grid"), width: 1, size: 4 },
    font: `11px ${fx.colours.get("sans")}`,
    ...more,
  });

  // The width of the widest label, the mark, their distance, and a pixel for rounding.
  const pen = document.createElement("canvas").getContext("2d");
  const roomFor = (chart, labels, at) => {
    const { font, ticks, gap } = chart.axes[at];
    pen.font = Array.isArray(font) ? `11px ${fx.colours.get("sans")}` : font;
    const widest = Math.max(0, ...(labels ?? []).map((label) => pen.measureText(label).width));
    return Math.ceil(widest + ticks.size + gap) + 1;
  };

  // A power of ten as "10 ms".
  const round = (ns) => units.time(ns).replace(/\.0+ /, " ");

  // Labels at marks; labels without room are left out.
  const spaced = (label, room) => (chart, list) => {
    let last = -Infinity;
    return list.map((mark) => {
      const at = chart.valToPos(mark, "x");
      if (at - last < room) return "";
      last = at;
      return label(mark);
    });
  };

  const bar = (ns) => Math.floor(Math.log10(Math.max(ns, 1)) * BARS);
  const edgeOf = (place) => 10 ** (place / BARS);

  function histogram(of) {
    const counts = new Map();
    for (const [ns, count] of of.buckets) counts.set(bar(ns), (counts.get(bar(ns)) ?? 0) + count);
    const places = [...counts.keys()].sort((a, b) => a - b);
    const first = Math.floor((places[0] ?? 0) / BARS) * BARS;
    const last = Math.max(Math.ceil(((places.at(-1) ?? 0) + 1) / BARS) * BARS, first + BARS);
    const x = Array.from({ length: last - first }, (_, at) => first + at + 0.5);
    const y = x.map((place) => counts.get(place - 0.5) ?? 0);
    const decades = (_, __, low, high) => Array.from({ length: Math.floor((high - low) / BARS) + 2 }, (_, at) => (Math.ceil(low / BARS) + at) * BARS).filter((place) => place <= high);
    return {
      data: [x, y],
      options: {
        scales: { x: { time: false, range: () => [first, last] }, y: { range: (_, __, most) => [0, Math.max(most * 1.05, 1)] } },
        series: [
          { label: "length", value: (_, place) => (place === null ? "–" : `${units.time(edgeOf(place - 0.5))} to ${units.time(edgeOf(place + 0.5))}`) },
          {
            label: "count",
            fill: fx.colours.get("chart-fill"),
            stroke: fx.colours.get("chart"),
            width: 1,
            paths: uPlot.paths.bars({ size: [1, 60] }),
            points: { show: false },
            value: (_, count) => (count === null ? "–" : units.count(count)),
          },
        ],
        axes: [axis({ splits: decades, values: spaced((place) => round(edgeOf(place)), 48) }), axis({ size: roomFor, incrs: COUNTS, values: (_, list) => list.map(units.count) })],
      },
    };
  }

  // The number of nines: 0 at 0 %, 1 at 90 %, 2 at 99 %.
  const nines = (share) => -Math.log10(1 - share);

  function percentile(of) {
    const x = [0];
    const y = [of.min];
    let seen = 0;
    for (const [ns, count] of of.buckets) {
      // The last sample is at its own rank, not at infinity.
      const share = Math.min((seen + count) / of.count, 1 - 0.5 / of.count);
      seen += count;
      x.push(nines(share));
      y.push(Math.max(Math.min(ns, of.max), 1));
    }
    y[0] = Math.max(y[0], 1);
    const most = Math.max(Math.ceil(x.at(-1)), 1);
    const low = 10 ** Math.floor(Math.log10(Math.max(of.min, 1)));
    const high = Math.max(10 ** Math.ceil(Math.log10(Math.max(of.max, 1))), low * 10);
    const decades = () => Array.from({ length: Math.round(Math.log10(high / low)) + 1 }, (_, at) => low * 10 ** at);
    const marks = [0, nines(0.5), 1, 2, 3, 4, 5, 6, 7].filter((at) => at <= most);
    const label = (at) => `${Number((100 * (1 - 10 ** -at)).toPrecision(8))} %`;
    return {
      data: [x, y],
      options: {
        scales: { x: { time: false, range: () => [0, most] }, y: { distr: 3, range: () => [low, high] } },
        series: [
          { label: "percentile", value: (_, at) => (at === null ? "–" : `${(100 * (1 - 10 ** -at)).toPrecision(5)} %`) },
          {
            label: "at most",
            stroke: fx.colours.get("chart"),
            width: 2,
            paths: uPlot.paths.stepped({ align: -1 }),
            points: { show: false },
            value: (_, ns) => units.time(ns),
          },
        ],
        axes: [axis({ splits: () => marks, values: spaced(label, 50) }), axis({ size: roomFor, splits: decades, filter: (_, list) => list, values: (_, list) => list.map(round) })],
      },
    };
  }

  // The size of its place, less the line of figures below it.
  function size(place) {
    return { width: Math.max(place.clientWidth, 160), height: Math.max(place.clientHeight - 22, 90) };
  }

  function draw(kind, { data, options }) {
    const place = places[kind];
    shown[kind]?.destroy();
    place.replaceChildren();
    shown[kind] = new uPlot({ ...size(place), padding: [null, BESIDE, null, null], cursor: { y: false, drag: { x: false, y: false } }, legend: { live: true }, ...options }, data, place);
  }

  function paint() {
    const { of, title } = trace.latency[metric];
    figures.replaceChildren();
    const fact = (name, value) => {
      const pair = document.createElement("span");
      const label = document.createElement("b");
      label.textContent = name;
      pair.append(label, ` ${value}`);
      figures.append(pair);
    };
    fact("count", units.count(of.count));
    trace.percentiles.forEach((percent, at) => fact(`p${percent}`, units.time(of.percentiles[at])));
    fact("max", units.time(of.max));
    if (of.censored > 0) fact("censored", units.count(of.censored));
    for (const kind of ["histogram", "percentile"]) {
      shown[kind]?.destroy();
      shown[kind] = null;
      places[kind].replaceChildren();
      places[kind].setAttribute("aria-label", `${title}: ${figures.textContent}`);
    }
    if (of.count === 0) {
      places.histogram.textContent = "No samples.";
      shown.bars = shown.points = 0;
      return;
    }
    const bars = histogram(of);
    const points = percentile(of);
    draw("histogram", bars);
    draw("percentile", points);
    shown.bars = bars.data[1].filter((count) => count > 0).length;
    shown.points = points.data[0].length;
  }

  function build() {
    trace.latency.forEach(({ title }, place) => choice.add(new Option(title, String(place))));
    choice.addEventListener("change", () => {
      metric = Number(choice.value);
      paint();
    });
    paint();
  }

  function resize() {
    for (const kind of ["histogram", "percentile"]) {
      shown[kind]?.setSize(size(places[kind]));
    }
  }

  fx.charts = { build, paint, resize, shown };
})();
