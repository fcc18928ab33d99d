// The part of the trace in view: its time range, and the scroll position.

(() => {
  // The shortest visible time range, in nanoseconds.
  const SHORTEST = 200;
  const { length } = fx.trace;
  const view = { from: 0, to: length, scroll: 0, width: 1000, height: 400 };
  const listeners = [];
  let scheduled = false;

  function changed() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      for (const call of listeners) call();
    });
  }

  function show(from, to) {
    const span = Math.min(Math.max(to - from, SHORTEST), Math.max(length, SHORTEST));
    const middle = (from + to) / 2;
    const begin = Math.min(Math.max(middle - span / 2, 0), Math.max(length - span, 0));
    view.from = begin;
    view.to = begin + span;
    changed();
  }

  // Makes the time range `factor` times as long; the time at `share` of the width stays in place.
  function zoom(factor, share = 0.5) {
    const span = view.to - view.from;
    const longest = Math.max(length, SHORTEST);
    const wanted = Math.min(Math.max(span * factor, SHORTEST), longest);
    const fixed = view.from + span * share;
    show(fixed - wanted * share, fixed + wanted * (1 - share));
  }

  // Moves by a share of the width.
  function pan(share) {
    const step = (view.to - view.from) * share;
    show(view.from + step, view.to + step);
  }

  // Shows a stretch of time with room around it.
  function around(from, to, room = 1) {
    const margin = Math.max((to - from) * room, SHORTEST / 2);
    show(from - margin, to + margin);
  }

  const x = (time) => ((time - view.from) / (view.to - view.from)) * view.width;
  const time = (x) => view.from + (x / view.width) * (view.to - view.from);
  const perPixel = () => (view.to - view.from) / view.width;

  fx.view = Object.assign(view, {
    show,
    zoom,
    pan,
    around,
    x,
    time,
    perPixel,
    changed,
    whole: () => show(0, length),
    onChange: (call) => listeners.push(call),
  });
})();
