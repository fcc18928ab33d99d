// A tile unfolded: who had each CPU, and what each thread did, slice by slice.
//
// The rules are those of the recorder's own `machine.rs`: whoever goes out of a
// CPU of which nothing was known has been on it since; a wake-up of a thread
// that runs or waits changes nothing; a gap leaves its CPU unknown.

(() => {
  const STATE = { UNKNOWN: 0, RUNNING: 1, WOKEN: 2, PREEMPTED: 3, SLEEPING: 4, DISK: 5, DEAD: 11, THROTTLED: 12, WOKEN_THROTTLED: 13 };
  const INFERRED = 16;
  const OUTGOING = 32;
  const WAKE = 64;
  const WAKE_THROTTLED = 65;
  const HELD = 66;
  const TAKEN = 67;
  const GAP = 128;

  const isThrottled = (state) => state === STATE.THROTTLED || state === STATE.WOKEN_THROTTLED;
  const waits = (state) => state === STATE.WOKEN || state === STATE.PREEMPTED || isThrottled(state);
  // What a thread that waits does while a quota holds it back, and once it does not.
  const HELD_BACK = { [STATE.PREEMPTED]: STATE.THROTTLED, [STATE.WOKEN]: STATE.WOKEN_THROTTLED };
  const RELEASED = { [STATE.THROTTLED]: STATE.PREEMPTED, [STATE.WOKEN_THROTTLED]: STATE.WOKEN };

  // Slices of a lane in order of time. What is open at the end of the tile goes
  // on in the next one; what began before has its true start.
  class Slices {
    constructor() {
      this.start = [];
      this.end = [];
      // The thread on a CPU's lane, the state on a thread's.
      this.what = [];
      // The CPU of a thread's slice; -1 where there is none.
      this.cpu = [];
      // Who woke the thread, of a slice that waits; -1 where it is not known.
      this.waker = [];
      // By place: what was taken of a slice in which a thread ran, where the recording tells.
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

    // The place of the slice that holds `time`, or -1.
    at(time) {
      const place = this.after(time) - 1;
      return place >= 0 && time < this.end[place] ? place : -1;
    }

    // The place of the first slice that begins after `time`.
    after(time) {
      let low = 0;
      let high = this.start.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.start[middle] <= time) low = middle + 1;
        else high = middle;
      }
      return low;
    }
  }

  class Machine {
    constructor() {
      this.cpus = new Map();
      this.threads = new Map();
      this.seats = new Map();
      this.doing = new Map();
      this.inferred = new Set();
    }

    lane(map, id) {
      let lane = map.get(id);
      if (!lane) map.set(id, (lane = new Slices()));
      return lane;
    }

    seat(cpu) {
      let seat = this.seats.get(cpu);
      if (!seat) this.seats.set(cpu, (seat = { thread: -1, since: 0, taken: null }));
      return seat;
    }

    sit(cpu, thread, time) {
      const seat = this.seat(cpu);
      seat.thread = thread;
      seat.since = time;
    }

    closeSeat(cpu, thread, time, taken = null) {
      const { since } = this.seat(cpu);
      if (time > since) this.lane(this.cpus, cpu).push(since, time, thread, cpu, -1, taken);
    }

    change(thread, state, cpu, waker, time, taken = null) {
      const doing = this.doing.get(thread);
      if (doing) {
        if (doing.state !== STATE.UNKNOWN && doing.since < time) {
          this.lane(this.threads, thread).push(doing.since, time, doing.state, doing.cpu, doing.waker, doing.state === STATE.RUNNING ? taken : null);
        }
        doing.state = state;
        doing.since = time;
        doing.cpu = cpu;
        doing.waker = waker;
      } else {
        this.doing.set(thread, { state, since: time, cpu, waker });
      }
    }

    state(thread) {
      return this.doing.get(thread)?.state ?? STATE.UNKNOWN;
    }

    runs(thread, cpu) {
      const doing = this.doing.get(thread);
      return doing !== undefined && doing.state === STATE.RUNNING && doing.cpu === cpu;
    }

    switch(time, cpu, outgoing, state, incoming) {
      const seat = this.seat(cpu);
      const before = seat.thread < 0 ? outgoing : seat.thread;
      const { taken } = seat;
      seat.taken = null;
      this.closeSeat(cpu, before, time, taken);
      if (before !== outgoing && this.runs(before, cpu)) {
        this.change(before, STATE.UNKNOWN, cpu, -1, time);
      }
      if (outgoing !== 0) {
        if (seat.thread < 0 && this.state(outgoing) === STATE.UNKNOWN) {
          const since = Math.max(seat.since, this.doing.get(outgoing)?.since ?? 0);
          this.doing.set(outgoing, { state: STATE.RUNNING, since, cpu, waker: -1 });
        }
        this.change(outgoing, state, cpu, -1, time, taken);
      }
      this.sit(cpu, incoming, time);
      if (incoming !== 0) this.change(incoming, STATE.RUNNING, cpu, -1, time);
    }

    wake(time, cpu, thread, waker, after) {
      const state = this.state(thread);
      if (thread === 0 || state === STATE.RUNNING || waits(state)) return;
      this.change(thread, after, cpu, waker, time);
    }

    // A quota held a thread back in a stretch of its wait, which goes on.
    held(thread, from, until) {
      const doing = this.doing.get(thread);
      if (doing === undefined || !waits(doing.state) || from < doing.since || until < from) return;
      const { cpu, waker } = doing;
      const held = HELD_BACK[doing.state] ?? doing.state;
      if (from > doing.since) this.change(thread, held, cpu, waker, from);
      else doing.state = held;
      this.change(thread, RELEASED[held], cpu, waker, until);
    }

    gap(time, cpu, length) {
      const seat = this.seat(cpu);
      if (seat.thread >= 0) {
        this.closeSeat(cpu, seat.thread, time - length);
        if (seat.thread > 0 && this.runs(seat.thread, cpu)) {
          this.change(seat.thread, STATE.UNKNOWN, cpu, -1, time - length);
        }
      }
      this.sit(cpu, -1, time);
    }

    close(time) {
      for (const [cpu, seat] of this.seats) {
        if (seat.thread >= 0) this.closeSeat(cpu, seat.thread, time);
      }
      for (const thread of [...this.doing.keys()]) this.change(thread, STATE.UNKNOWN, -1, -1, time);
    }
  }

  // What the tile says about the machine at its begin.
  function restore(columns, begin) {
    const machine = new Machine();
    const [on, onAges, threads, states, ages, cpus, wakers] = columns;
    const since = (age) => (age === 0 ? 0 : begin - (age - 1));
    for (let cpu = 0; on.more; cpu++) {
      const thread = on.number() - 1;
      machine.seats.set(cpu, { thread, since: since(onAges.number()), taken: null });
    }
    for (let next = 0; threads.more; ) {
      const thread = next + threads.number();
      next = thread + 1;
      const [state, age] = [states.byte(), ages.number()];
      machine.doing.set(thread, {
        state,
        since: since(age),
        cpu: cpus.number(),
        waker: wakers.number() - 1,
      });
    }
    // Who is seen to leave a CPU first has been there from the begin.
    for (const { number, first } of fx.trace.cpus) {
      const seat = machine.seat(number);
      if (first === null || seat.thread >= 0 || seat.since !== 0) continue;
      seat.thread = first;
      if (first !== 0 && machine.state(first) === STATE.UNKNOWN) {
        machine.doing.set(first, { state: STATE.RUNNING, since: 0, cpu: number, waker: -1 });
      }
    }
    return machine;
  }

  // The slices and wake-ups of a tile.
  function events(tile, columns) {
    const machine = restore(columns, tile.begin);
    const [heads, times, cpus, threads, extras] = columns.slice(7);
    const wakes = { time: [], thread: [], waker: [], cpu: [] };
    const inferred = new Set();
    let time = tile.begin;
    for (let left = tile.events; left > 0; left--) {
      const head = heads.byte();
      time += times.number();
      const cpu = cpus.number();
      if (head === GAP) {
        machine.gap(time, cpu, extras.number());
      } else if (head === HELD) {
        const thread = threads.number();
        const from = time - extras.number();
        machine.held(thread, from, from + extras.number());
      } else if (head === TAKEN) {
        const [steal, irq, irqs, asked] = [extras.number(), extras.number(), extras.number(), extras.number()];
        machine.seat(cpu).taken = { steal, irq, irqs, asked: asked - 1 };
      } else if (head === WAKE || head === WAKE_THROTTLED) {
        const thread = threads.number();
        const waker = extras.number() - 1;
        wakes.time.push(time);
        wakes.thread.push(thread);
        wakes.waker.push(waker);
        wakes.cpu.push(cpu);
        machine.wake(time, cpu, thread, waker, head === WAKE ? STATE.WOKEN : STATE.WOKEN_THROTTLED);
      } else {
        const incoming = threads.number();
        const given = (head & OUTGOING) !== 0;
        const outgoing = given ? extras.number() : machine.seat(cpu).thread;
        if (head & INFERRED) inferred.add(`${cpu}@${time}`);
        machine.switch(time, cpu, outgoing, head % 16, incoming);
      }
    }
    machine.close(tile.to);
    return { cpus: machine.cpus, threads: machine.threads, wakes, inferred };
  }

  const KIND = { WHOLE: 0, OPEN: 1, INSTANT: 2, MANY: 3 };

  // The spans of a block, by thread.
  function spans(columns, begin) {
    const [threads, starts, lengths, names, depths, kinds] = columns;
    const byThread = new Map();
    let thread = 0;
    let start = begin;
    let list = null;
    while (threads.more) {
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
      list.push({ thread, start, end, name, depth, kind: Math.min(kind, KIND.MANY), count: kind - KIND.MANY });
    }
    return byThread;
  }

  fx.unfold = { STATE, KIND, isThrottled, events, spans };
})();
