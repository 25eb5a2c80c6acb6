// The MMapGame by the rules of src/learned_mapping/mmap/rules: the same moves, the same numbers, without its speed.
"use strict";
(function (lm) {
  const COPY = 0, NO_COPY = 1, DROP = 2, NEVER = 2147483647;

  class Game {
    // program: as explorable_data.program_json makes it; settings: {fastBytes, copyRate}, the program's own by default.
    constructor(program, settings = {}) {
      this.program = program;
      this.fastBytes = settings.fastBytes || program.fast_bytes;
      this.copyRate = settings.copyRate || program.copy_bytes_per_s;
      this.length = program.instruction.length;
      this.restart();
    }

    restart() {
      const p = this.program;
      this.forced = new Set();
      this.resets = 0;
      this.past = [];
      this.moves = [];
      this.state = {
        cursor: 0, saved: 0, open: 0, backup: 0, supply: p.supply_s.slice(), joined: p.supply_s.map(() => 0), placed: p.supply_s.map(() => 0),
        held: [], // {start, end, offset, top, tensor}
        tensors: p.is_parameter.map((known) => ({ end: -1, offset: -1, held: -1, inHbm: known ? 0 : NEVER })),
        groups: Array.from({ length: p.num_groups }, () => ({ status: "open", offset: -1 })),
      };
      this.settle();
    }

    get over() { return this.state.cursor === this.length; }
    get value() { return this.program.possible_saving_s > 0 ? this.state.saved / this.program.possible_saving_s : 0; }

    // Drop-backup (section 4.3.2): at a dead end back to the last safe prefix, with the alias group forced to Drop.
    settle() {
      this.outcomes = this.over ? null : this.evaluate();
      while (!this.over && !this.outcomes.some((o) => o.legal)) {
        this.forced.add(this.program.alias[this.state.cursor]);
        this.resets += 1;
        this.rewind(this.state.backup);
        this.outcomes = this.evaluate();
      }
    }

    rewind(prefix) {
      if (prefix < this.state.cursor) {
        this.state = this.past[prefix];
        this.past.length = this.moves.length = prefix;
      }
    }

    back(prefix) { this.rewind(prefix); this.settle(); }

    step(action) {
      const p = this.program, b = this.state.cursor, outcome = this.outcomes[action];
      if (!outcome.legal) throw new Error("not legal");
      this.past.push(copy(this.state));
      const s = this.state, t = p.instruction[b], tensor = s.tensors[p.tensor[b]];
      if (action === COPY && p.bytes[b] > 0) {
        const [first, last] = p.is_output[b] ? [t + 1, outcome.end] : [outcome.start, t - 1];
        const far = p.is_output[b] ? last : first;
        for (let u = first; u <= last; u++) s.supply[u] = u === far ? outcome.leftover : 0;
        for (let u = first; u < last; u++) s.joined[u] = 1;
      }
      if (action !== DROP) {
        if (outcome.end >= outcome.start) {
          if (action === NO_COPY && !p.is_output[b]) {
            if (tensor.held >= 0) s.held[tensor.held].end = outcome.end;
          } else if (p.bytes[b] > 0) {
            tensor.held = s.held.length;
            s.held.push({ start: outcome.start, end: outcome.end, offset: outcome.offset, top: outcome.offset + p.bytes[b], tensor: p.tensor[b] });
          }
          tensor.end = outcome.end;
          tensor.offset = outcome.offset;
        }
        if (p.bit[b] >= 0) s.placed[t] |= 1 << p.bit[b];
      }
      if (p.is_output[b]) tensor.inHbm = action === NO_COPY ? NEVER : (action === DROP ? t : outcome.end) + 1;
      if (p.alias[b] >= 0) {
        const group = s.groups[p.alias[b]];
        if (group.status === "open") {
          group.status = action === DROP ? "dropped" : "placed";
          group.offset = outcome.offset;
          if (action !== DROP) s.open += 1;
        }
        if (p.group_left[b] === 0 && group.status === "placed") s.open -= 1;
      }
      s.saved += outcome.reward;
      s.cursor += 1;
      if (s.open === 0) s.backup = s.cursor;
      this.moves.push({ action, ...outcome });
      this.settle();
      return outcome.reward;
    }

    evaluate() {
      const p = this.program, s = this.state, b = s.cursor, t = p.instruction[b];
      const group = p.alias[b] >= 0 ? s.groups[p.alias[b]] : null;
      const mayPlace = !group || (group.status !== "dropped" && !this.forced.has(p.alias[b]));
      const mayDrop = !group || group.status !== "placed";
      const no = (why) => ({ legal: false, start: -1, end: -1, offset: -1, leftover: 0, reward: 0, why });
      const yes = (start, end, offset, leftover, reward) => ({ legal: true, start, end, offset, leftover, reward, why: "" });
      const tied = "its alias group was dropped";
      const outcomes = [no(tied), no(tied), mayDrop ? yes(-1, -1, -1, 0, 0) : no("its alias group is in fast memory")];
      if (!mayPlace) return outcomes;
      const reward = this.benefit(b, s.placed[t]);
      const place = (result) => (typeof result === "string" ? no(result) : yes(...result, reward));
      outcomes[COPY] = place(this.copyOutcome(b, t));
      outcomes[NO_COPY] = place(this.noCopyOutcome(b, t));
      return outcomes;
    }

    // L(B') - L(B' + b), seconds.
    benefit(b, placed) {
      const p = this.program;
      if (p.bit[b] < 0) return 0;
      const without = p.table_start[p.instruction[b]] + (placed & ~(1 << p.bit[b]));
      return p.latency_s[without] - p.latency_s[without + (1 << p.bit[b])];
    }

    demand(b) { return this.program.bytes[b] / this.copyRate; }

    copyOutcome(b, t) {
      const p = this.program, s = this.state, tensor = s.tensors[p.tensor[b]], forward = p.is_output[b];
      if (p.bytes[b] > this.fastBytes) return "it is larger than the fast memory";
      if (!forward && tensor.inHbm > t) return "slow memory does not have the data";
      let far = -1, remaining = this.demand(b);
      if (p.bytes[b] === 0) { far = t; remaining = 0; } else {
        const stride = forward ? 1 : -1, stop = forward ? s.supply.length : tensor.inHbm - 1;
        for (let u = t + stride; forward ? u < stop : u > stop; u += stride) {
          if (u !== t + stride && s.joined[Math.min(u, u - stride)]) break;
          if (s.supply[u] >= remaining) { far = u; remaining = s.supply[u] - remaining; break; }
          remaining -= s.supply[u];
        }
      }
      if (far < 0) return "too little copy time is left";
      const start = forward ? t : far, end = forward ? far : t;
      if (!forward && tensor.end >= start) return "its tensor is in fast memory already";
      const offset = this.place(b, start);
      return offset < 0 ? "there is no room" : [start, end, offset, remaining];
    }

    noCopyOutcome(b, t) {
      const p = this.program, s = this.state, tensor = s.tensors[p.tensor[b]];
      if (p.is_output[b]) {
        if (p.bytes[b] > this.fastBytes) return "it is larger than the fast memory";
        const offset = this.place(b, t);
        return offset < 0 ? "there is no room" : [t, p.live_end[b], offset, 0];
      }
      if (tensor.end < 0) return "its tensor is not in fast memory";
      const start = Math.min(tensor.end, t) + 1, group = p.alias[b] >= 0 ? s.groups[p.alias[b]] : null;
      if (group && group.status === "placed" && group.offset !== tensor.offset) return "its alias group lies elsewhere";
      if (start <= t && p.bytes[b] > 0 && !this.isFree(b, start, tensor.offset)) return "its place is taken meanwhile";
      return [start, t, tensor.offset, 0];
    }

    place(b, start) {
      const p = this.program, group = p.alias[b] >= 0 ? this.state.groups[p.alias[b]] : null;
      if (group && group.status === "placed") {
        return p.bytes[b] === 0 || this.isFree(b, start, group.offset) ? group.offset : -1;
      }
      if (p.bytes[b] === 0) return 0;
      let free = 0;
      const overlapping = this.state.held.filter((r) => r.end >= start).sort((x, y) => x.offset - y.offset);
      for (const r of overlapping) {
        if (r.offset - free >= p.bytes[b]) return free;
        free = Math.max(free, r.top);
      }
      return this.fastBytes - free >= p.bytes[b] ? free : -1;
    }

    isFree(b, start, offset) {
      const p = this.program, t = p.instruction[b], top = offset + p.bytes[b];
      if (top > this.fastBytes) return false;
      return this.state.held.every((r) => {
        if (r.end < start || r.offset >= top || r.top <= offset) return true;
        return r.end === t && r.offset === offset && this.updatesInPlace(b, r.tensor);
      });
    }

    updatesInPlace(b, tensor) {
      const p = this.program;
      if (p.alias[b] < 0 || !p.is_output[b]) return false;
      for (let c = p.first_buffer[p.instruction[b]]; c < b; c++) {
        if (!p.is_output[c] && p.alias[c] === p.alias[b] && p.tensor[c] === tensor) return true;
      }
      return false;
    }

    // Plays on: the legal action of highest preference; preferences(game) gives three numbers.
    playOn(preferences) {
      while (!this.over) {
        const wanted = preferences(this);
        let best = -1;
        for (let a = 0; a < 3; a++) if (this.outcomes[a].legal && (best < 0 || wanted[a] > wanted[best])) best = a;
        this.step(best);
      }
      return this.value;
    }

    // What ThresholdRule of src/learned_mapping/mmap/searches/greedy.py weighs; Drop scores 0.
    scores(rule) {
      const p = this.program, b = this.state.cursor, scores = [0, 0, 0];
      for (const action of [COPY, NO_COPY]) {
        const o = this.outcomes[action];
        if (!o.legal) continue;
        const steps = Math.max(o.end - o.start + 1, 0), size = Math.max(p.bytes[b] / this.fastBytes, 1e-6);
        const benefit = Math.max(o.reward, 0) / p.scale[0], area = Math.max(size * steps, 1e-6);
        const density = Math.log(Math.max(benefit, 1e-9) / area);
        const supply = action === COPY ? Math.log1p(this.demand(b) / p.scale[1]) : 0;
        const left = Math.max(p.benefit_left_s[b], 0) / p.scale[0];
        const whole = Math.log(Math.max(benefit + left, 1e-9) / area);
        const price = -rule.price - (action === COPY ? rule.copyPrice : 0);
        scores[action] = price + (1 - rule.foresight) * density - (action === COPY ? rule.supplyPrice : 0) * supply + rule.foresight * whole;
      }
      return scores;
    }
  }

  function copy(s) {
    return {
      ...s, supply: s.supply.slice(), joined: s.joined.slice(), placed: s.placed.slice(),
      held: s.held.map((r) => ({ ...r })), tensors: s.tensors.map((n) => ({ ...n })), groups: s.groups.map((g) => ({ ...g })),
    };
  }

  // The better of the two games of `greedy`: one that copies first, one that keeps first.
  function greedy(program, settings) {
    const games = [[2, 1, 0], [1, 2, 0]].map((order) => {
      const game = new Game(program, settings);
      game.playOn(() => order);
      return game;
    });
    return games[1].value > games[0].value ? games[1] : games[0];
  }

  // The best return of all games of a small program without alias groups.
  function exhaust(program, settings) {
    const game = new Game(program, settings);
    return (function most() {
      if (game.over) return game.value;
      const at = game.moves.length, values = [0, 1, 2].filter((a) => game.outcomes[a].legal).map((a) => {
        game.step(a);
        const value = most();
        game.back(at);
        return value;
      });
      return Math.max(...values);
    })();
  }

  Object.assign(lm, { Game, greedy, exhaust, COPY, NO_COPY, DROP });
})((globalThis.lm = globalThis.lm || {}));
