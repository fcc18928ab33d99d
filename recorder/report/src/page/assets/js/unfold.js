// Unfolds a tile: the occupant of each CPU and the state of each thread, slice by slice.
//
// Nothing is inferred here. The events of a tile are the results of the recorder's analysis, as assignments: from now
// on this thread has that CPU, from then on it is in that state.

(() => {
  const STATE = { UNKNOWN: 0, RUNNING: 1, WOKEN: 2, PREEMPTED: 3, SLEEPING: 4, DISK: 5, DEAD: 11, THROTTLED: 12, WOKEN_THROTTLED: 13 };
  // The first byte of an event; some include a state.
  const STATES = 16;
  const HEAD = { INFERRED: 16, OUTGOING: 32, WAKE: 64, CHANGE: 80, TAKEN: 96, CLAIM: 97, CLAIM_RUNNING: 98, MOVE: 99, VACATE: 128 };

  // The index of the last of some sorted times that is not after `time`, between `low` and `high`; low - 1 if all are
  // later.
  function lastAt(times, time, low = 0, high = times.length) {
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  const isThrottled = (state) => state === STATE.THROTTLED || state === STATE.WOKEN_THROTTLED;

  // Slices of a lane in order of time. A slice that is open at the end of the tile continues in the next one; one
  // that began earlier has its true begin.
  class Slices {
    constructor() {
      this.start = [];
      this.end = [];
      // The thread on a CPU's lane, the state on a thread's.
      this.what = [];
      // The CPU of a thread's slice; -1 if none.
      this.cpu = [];
      // The waker of a waiting thread; -1 if unknown.
      this.waker = [];
      // By index: the time that was taken from a running thread's slice, if recorded.
      this.taken = new Map();
    }

    push(start, end, what, cpu, waker, taken = null) {
      if (taken !== null) this.taken.set(this.start.length, taken);
      this.start.push(start);
      this.end.push(end);
      this.what.push(what);
      this.cpu.push(cpu);
      this.waker.push(waker);
    }

    // The index of the slice that contains `time`, or -1.
    at(time) {
      const place = this.after(time) - 1;
      return place >= 0 && time < this.end[place] ? place : -1;
    }

    // The index of the first slice that begins after `time`.
    after(time) {
      return lastAt(this.start, time) + 1;
    }
  }

  class Lanes {
    constructor(from) {
      this.from = from;
      this.cpus = new Map();
      this.threads = new Map();
      // The occupant of each CPU, and the state of each thread.
      this.seats = new Map();
      this.doing = new Map();
    }

    // A slice has ended. If it ended before the tile, the slice is in an earlier tile.
    add(map, id, start, end, ...rest) {
      if (start >= end || end <= this.from) return;
      let lane = map.get(id);
      if (!lane) map.set(id, (lane = new Slices()));
      lane.push(start, end, ...rest);
    }

    seat(cpu) {
      let seat = this.seats.get(cpu);
      if (!seat) this.seats.set(cpu, (seat = { thread: -1, since: 0, taken: null }));
      return seat;
    }

    // The occupant has the CPU until `until`; from `since` on another thread has it, or none if -1.
    give(cpu, thread, since, until = since) {
      const seat = this.seat(cpu);
      if (seat.thread >= 0) this.add(this.cpus, cpu, seat.since, until, seat.thread, cpu, -1, seat.taken);
      seat.thread = thread;
      seat.since = since;
      seat.taken = null;
    }

    // From `since` on, a thread has another state. Idle is not a thread.
    change(thread, state, cpu, waker, since, taken = null) {
      if (thread === 0) return;
      const doing = this.doing.get(thread);
      if (doing !== undefined && doing.state !== STATE.UNKNOWN) {
        const ran = doing.state === STATE.RUNNING;
        this.add(this.threads, thread, doing.since, since, doing.state, doing.cpu, doing.waker, ran ? taken : null);
      }
      this.doing.set(thread, { state, since, cpu, waker });
    }

    // The same state on the same CPU.
    become(thread, state, since) {
      const { cpu, waker } = this.doing.get(thread) ?? { cpu: -1, waker: -1 };
      this.change(thread, state, cpu, waker, since);
    }

    // Sets the thread that has had the CPU since `since`; if `ranSince` is not null, the thread has run since then.
    claim(cpu, thread, since, ranSince) {
      const seat = this.seat(cpu);
      seat.thread = thread;
      seat.since = since;
      if (ranSince !== null) this.doing.set(thread, { state: STATE.RUNNING, since: ranSince, cpu, waker: -1 });
    }

    close(time) {
      for (const cpu of this.seats.keys()) this.give(cpu, -1, time);
      for (const thread of [...this.doing.keys()]) this.change(thread, STATE.UNKNOWN, -1, -1, time);
    }
  }

  // The time of an age: 0 for before the trace.
  const sinceOf = (age, time) => (age === 0 ? 0 : time - (age - 1));

  // The state of the lanes at the start of the tile.
  function begun(tile, columns) {
    const { begin } = tile;
    const lanes = new Lanes(tile.from);
    const [on, onAges, threads, states, ages, cpus, wakers] = columns;
    for (let cpu = 0; on.more; cpu++) {
      const thread = on.number() - 1;
      lanes.seats.set(cpu, { thread, since: sinceOf(onAges.number(), begin), taken: null });
    }
    for (let next = 0; threads.more; ) {
      const thread = next + threads.number();
      next = thread + 1;
      const [state, age] = [states.byte(), ages.number()];
      lanes.doing.set(thread, {
        state,
        since: sinceOf(age, begin),
        cpu: cpus.number(),
        waker: wakers.number() - 1,
      });
    }
    return lanes;
  }

  // The slices and wakeups of a tile.
  function events(tile, columns) {
    const lanes = begun(tile, columns);
    const [heads, times, cpus, threads, extras] = columns.slice(7);
    const wakes = { time: [], thread: [], waker: [], cpu: [] };
    // For each thread, the times of its moves, from which CPU's queue to which.
    const moves = new Map();
    const inferred = new Set();
    let time = tile.begin;
    for (let left = tile.events; left > 0; left--) {
      const head = heads.byte();
      const state = head % STATES;
      time += times.number();
      const cpu = cpus.number();
      if (head === HEAD.VACATE) {
        lanes.give(cpu, -1, time, time - extras.number());
      } else if (head === HEAD.CLAIM || head === HEAD.CLAIM_RUNNING) {
        const thread = threads.number();
        const since = sinceOf(extras.number(), time);
        lanes.claim(cpu, thread, since, head === HEAD.CLAIM ? null : sinceOf(extras.number(), time));
      } else if (head === HEAD.TAKEN) {
        const [steal, irq, irqs, asked] = [extras.number(), extras.number(), extras.number(), extras.number()];
        lanes.seat(cpu).taken = { steal, irq, irqs, asked: asked - 1 };
      } else if (head === HEAD.MOVE) {
        const thread = threads.number();
        if (!moves.has(thread)) moves.set(thread, []);
        moves.get(thread).push({ time, from: extras.number(), to: cpu });
      } else if (head >= HEAD.CHANGE) {
        const thread = threads.number();
        lanes.become(thread, state, sinceOf(extras.number(), time));
      } else if (head >= HEAD.WAKE) {
        const thread = threads.number();
        const waker = extras.number() - 1;
        wakes.time.push(time);
        wakes.thread.push(thread);
        wakes.waker.push(waker);
        wakes.cpu.push(cpu);
        if (state !== STATE.UNKNOWN) lanes.change(thread, state, cpu, waker, time);
      } else {
        const incoming = threads.number();
        const { thread, taken } = lanes.seat(cpu);
        const outgoing = head & HEAD.OUTGOING ? extras.number() : thread;
        if (head & HEAD.INFERRED) inferred.add(`${cpu}@${time}`);
        lanes.give(cpu, incoming, time);
        lanes.change(outgoing, state, cpu, -1, time, taken);
        lanes.change(incoming, STATE.RUNNING, cpu, -1, time);
      }
    }
    // Facts about this tile that are recorded in later tiles.
    for (const { tile: later, head, cpu, thread, since, ranSince } of fx.trace.late) {
      if (later <= tile.index || since >= tile.to) continue;
      if (head === HEAD.VACATE) lanes.give(cpu, -1, tile.to, since);
      else if (head >= HEAD.CLAIM) lanes.claim(cpu, thread, since, ranSince !== null && ranSince < tile.to ? ranSince : null);
      else lanes.become(thread, head % STATES, since);
    }
    lanes.close(tile.to);
    return { cpus: lanes.cpus, threads: lanes.threads, wakes, moves, inferred };
  }

  const KIND = { WHOLE: 0, OPEN: 1, INSTANT: 2, MANY: 3 };

  // The spans of a block, by thread.
  function spans(columns, begin) {
    const [threads, starts, lengths, names, depths, kinds, args] = columns;
    const byThread = new Map();
    let thread = 0;
    let start = begin;
    let list = null;
    // The index of the next span with arguments.
    let withArgs = args.more ? args.number() : -1;
    for (let place = 0; threads.more; place++) {
      const step = threads.number();
      if (step > 0 || list === null) {
        thread += step;
        start = begin;
        byThread.set(thread, (list = []));
      }
      start += starts.signed();
      const end = start + lengths.number();
      const name = names.number();
      const depth = depths.byte();
      const kind = kinds.number();
      const span = { thread, start, end, name, depth, kind: Math.min(kind, KIND.MANY), count: kind - KIND.MANY, args: 0 };
      if (place === withArgs) {
        span.args = args.number();
        withArgs = args.more ? place + 1 + args.number() : -1;
      }
      list.push(span);
    }
    return byThread;
  }

  fx.unfold = { STATE, KIND, lastAt, isThrottled, events, spans };
})();
