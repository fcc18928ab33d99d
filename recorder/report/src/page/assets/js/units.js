// Numbers in a readable form. Times are nanoseconds.
"use strict";
const fx = {};

(() => {
  const STEPS = [
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "µs"],
    [1, "ns"],
  ];

  // A duration with three significant digits, as "1.23 ms".
  function time(ns) {
    if (ns === null || ns === undefined) return "–";
    if (ns === 0) return "0";
    const size = Math.abs(ns);
    const [unit, name] = STEPS.find(([unit]) => size >= unit) ?? [1, "ns"];
    const value = ns / unit;
    const digits = unit === 1 ? 0 : Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return `${value.toFixed(digits)} ${name}`;
  }

  // A time after the beginning of the trace, precise enough to distinguish it from others at a distance of `step`.
  function moment(ns, step) {
    const [unit, name] = STEPS.find(([unit]) => fx.trace.length >= unit) ?? [1, "ns"];
    const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(unit / Math.max(step, 1)))));
    return `${(ns / unit).toFixed(unit === 1 ? 0 : digits)} ${name}`;
  }

  // A count in groups of three digits.
  function count(number) {
    return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  }

  // A count with its noun in the singular or plural.
  function counted(number, one, many) {
    return `${count(number)} ${number === 1 ? one : many}`;
  }

  // A value of a counter, with this many digits if it is not an integer.
  function value(number, digits = 6) {
    if (Number.isInteger(number) && Math.abs(number) < 1e15) return (number < 0 ? "−" : "") + count(Math.abs(number));
    return String(Number(number.toPrecision(digits)));
  }

  // A part of a whole as "12.3 %".
  function percent(part, whole) {
    if (!whole) return "–";
    const value = (100 * part) / whole;
    return `${value < 9.95 ? value.toFixed(1) : value.toFixed(0)} %`;
  }

  // The largest of 1, 2 and 5 times a power of ten that is not above `value`.
  function round(value) {
    const unit = 10 ** Math.floor(Math.log10(value));
    const factor = value / unit;
    return unit * (factor >= 5 ? 5 : factor >= 2 ? 2 : 1);
  }

  fx.units = { time, moment, count, counted, value, percent, round };
})();
