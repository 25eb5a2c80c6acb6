// Paper 2's constraints, cost model and repair, by the rules of src/learned_mapping/{mcm,hardware/chip_package.py}.
"use strict";
(function (lm) {
  // Eq. 2 to 4 and the memory of each chip: [{rule, text, ops}], empty where the partition is valid.
  function violations(graph, f, chips, sramBytes) {
    const found = [];
    for (const [u, v] of graph.op_edges) {
      if (f[u] > f[v]) {
        found.push({ rule: "acyclic", ops: [u, v], text: `Eq. 2, acyclic dataflow: ${graph.ops[u]} on chip ${f[u]} feeds ${graph.ops[v]} on chip ${f[v]}, against the dataflow` });
      }
    }
    const used = new Set(f), top = Math.max(...f);
    for (let d = 0; d < top; d++) {
      if (!used.has(d)) found.push({ rule: "skipping", ops: [], text: `Eq. 3, no skipping chips: chip ${d} runs nothing, but chip ${top} does` });
    }
    if (!found.some((x) => x.rule === "acyclic")) {
      for (const [u, v] of triangles(graph, f, top + 1)) {
        found.push({ rule: "triangle", ops: [u, v], text: `Eq. 4, chip triangle: ${graph.ops[u]} on chip ${f[u]} feeds chip ${f[v]} directly, and a path over other chips does too` });
      }
    }
    if (sramBytes !== undefined) {
      memory(graph, f, chips).forEach((bytes, d) => {
        if (bytes > sramBytes) found.push({ rule: "memory", ops: [], text: `Memory: chip ${d} needs ${(bytes / 2 ** 20).toFixed(2)} MiB, and has ${(sramBytes / 2 ** 20).toFixed(2)}` });
      });
    }
    return found;
  }

  // Edges of ops whose chips are joined by a longer path too; chips are numbered along the dataflow.
  function triangles(graph, f, chips) {
    const direct = Array.from({ length: chips }, () => new Array(chips).fill(false));
    for (const [u, v] of graph.op_edges) if (f[u] !== f[v]) direct[f[u]][f[v]] = true;
    const longest = Array.from({ length: chips }, (_, a) => direct.map((_, b) => (a === b ? 0 : -Infinity)));
    for (let a = chips - 1; a >= 0; a--) {
      for (let b = a + 1; b < chips; b++) {
        if (direct[a][b]) for (let c = b; c < chips; c++) longest[a][c] = Math.max(longest[a][c], longest[b][c] + 1);
      }
    }
    return graph.op_edges.filter(([u, v]) => f[u] !== f[v] && longest[f[u]][f[v]] !== 1);
  }

  // Seconds of each chip: its ops, and the two links beside it.
  function latencies(graph, f, chips, linkBytesPerS) {
    const load = new Array(chips).fill(0), up = load.slice(), down = load.slice();
    graph.seconds.forEach((s, op) => { load[f[op]] += s; });
    const last = new Map();
    graph.edge_tensor.forEach((n, i) => last.set(n, Math.max(last.has(n) ? last.get(n) : -1, f[graph.edge_consumer[i]])));
    for (const [n, end] of [...last].sort((x, y) => x[0] - y[0])) {
      const first = f[graph.tensor_producer[n]];
      if (end > first) {
        up[first] += graph.tensor_bytes[n] / linkBytesPerS;
        down[end] += graph.tensor_bytes[n] / linkBytesPerS;
      }
    }
    let sum = 0;
    const busy = up.map((x, d) => { sum += x - down[d]; return Math.max(sum, 0); });
    return load.map((x, d) => x + (busy[d] + (d > 0 ? busy[d - 1] : 0)));
  }

  function runtime(graph, f, chips, linkBytesPerS) { return Math.max(...latencies(graph, f, chips, linkBytesPerS)); }

  // The most bytes each chip holds.
  function memory(graph, f, chips) {
    const held = new Array(chips).fill(0), position = new Array(f.length);
    graph.weight_bytes.forEach((w, op) => { held[f[op]] += w; });
    graph.order.forEach((op, i) => { position[op] = i; });
    const starts = f.map(() => []), ends = f.map(() => []), uses = graph.tensor_bytes.map(() => []);
    graph.edge_tensor.forEach((n, i) => uses[n].push(graph.edge_consumer[i]));
    graph.tensor_bytes.forEach((size, n) => {
      const producer = graph.tensor_producer[n], home = f[producer], last = new Map([[home, position[producer]]]);
      for (const op of uses[n]) last.set(f[op], Math.max(last.has(f[op]) ? last.get(f[op]) : -1, position[op]));
      for (const [chip, end] of last) {
        if (chip !== home) held[chip] += size;
        else {
          starts[position[producer]].push([chip, size]);
          if (last.size > 1 || graph.tensor_is_output[n]) continue;
        }
        ends[end].push([chip, size]);
      }
    });
    const peak = held.slice();
    for (let step = 0; step < f.length; step++) {
      for (const [chip, size] of starts[step]) { held[chip] += size; peak[chip] = Math.max(peak[chip], held[chip]); }
      for (const [chip, size] of ends[step]) held[chip] -= size;
    }
    return peak;
  }

  // The constraint solver of Section 4.2 with its interface; chain: the chain rule, else Eq. 4 itself.
  class Solver {
    constructor(graph, chips, chain = true) {
      Object.assign(this, { graph, chips, chain, trail: [] });
      const all = Array.from({ length: chips }, (_, c) => c);
      this.domains = graph.ops.map(() => new Set(all));
      const targets = new Set(graph.op_edges.map(([, v]) => v));
      this.sources = graph.ops.map((_, u) => u).filter((u) => !targets.has(u));
      this.propagate(this.domains);
    }

    getDomain(op) {
      return [...this.domains[op]].sort((x, y) => x - y).filter((chip) => {
        const trial = this.domains.map((d) => new Set(d));
        trial[op] = new Set([chip]);
        return this.propagate(trial);
      });
    }

    setDomain(op, chips) {
      const saved = this.domains.map((d) => new Set(d)), wanted = new Set(chips);
      this.trail.push([op, wanted, saved]);
      this.domains[op] = new Set([...this.domains[op]].filter((c) => wanted.has(c)));
      while (this.domains.some((d) => !d.size) || !this.propagate(this.domains)) {
        if (!this.trail.length) throw new Error("no partition exists");
        const [blamed, tried, before] = this.trail.pop();
        this.domains = before.map((d) => new Set(d));
        this.domains[blamed] = tried.size ? new Set([...before[blamed]].filter((c) => !tried.has(c))) : new Set();
      }
      return this.trail.length;
    }

    propagate(domains) {
      for (let changed = true; changed;) {
        changed = false;
        for (const [u, v] of this.graph.op_edges) {
          for (const [a, b, forward] of [[u, v, true], [v, u, false]]) {
            const keep = [...domains[b]].filter((c) => [...domains[a]].some((x) => {
              const step = forward ? c - x : x - c;
              return step >= 0 && (!this.chain || step <= 1);
            }));
            if (keep.length !== domains[b].size) {
              domains[b].clear();
              keep.forEach((c) => domains[b].add(c));
              changed = true;
            }
            if (!keep.length) return false;
          }
        }
      }
      if (!this.sources.some((s) => domains[s].has(0))) return false;
      const fixed = domains.map((d) => (d.size === 1 ? [...d][0] : -1));
      if (!this.chain) {
        const decided = this.graph.op_edges.filter(([u, v]) => fixed[u] >= 0 && fixed[v] >= 0);
        if (decided.length && triangles({ op_edges: decided }, fixed, Math.max(...fixed) + 1).length) return false;
      }
      if (fixed.every((c) => c >= 0)) {
        const used = new Set(fixed);
        return [...used].every((c) => c < used.size);
      }
      return true;
    }
  }

  function draw(domain, random) { return domain.length === 1 ? domain[0] : domain[Math.floor(random() * domain.length)]; }

  // Algorithm 1 with uniform weights.
  function sampleRepair(solver, order, random) {
    for (let i = 0; i < order.length;) {
      const domain = solver.getDomain(order[i]);
      i = solver.setDomain(order[i], domain.length ? [draw(domain, random)] : []);
    }
    return order.map((_, u) => solver.getDomain(u)[0]);
  }

  // Algorithm 2: candidates stay where their domain allows, the rest is filled in at random.
  function fixRepair(solver, order, candidate, random) {
    const n = order.length;
    for (let i = 0; i < 2 * n;) {
      const op = order[i % n], domain = solver.getDomain(op);
      if (i >= n) i = solver.setDomain(op, domain.length ? [draw(domain, random)] : []);
      else i = solver.setDomain(op, domain.includes(candidate[op]) ? [candidate[op]] : domain);
    }
    return order.map((_, u) => solver.getDomain(u)[0]);
  }

  // The partition of least runtime that breaks no rule, by trying them in topological order; for small graphs.
  function optimum(graph, chips, linkBytesPerS, sramBytes) {
    const before = graph.ops.map(() => []), f = new Array(graph.ops.length).fill(0), load = new Array(chips).fill(0);
    graph.op_edges.forEach(([u, v]) => before[v].push(u));
    let best = Infinity, found = null;
    (function place(i) {
      if (i === graph.order.length) {
        const cost = runtime(graph, f, chips, linkBytesPerS);
        if (cost < best && !violations(graph, f, chips, sramBytes).length) { best = cost; found = f.slice(); }
        return;
      }
      const op = graph.order[i], least = Math.max(0, ...before[op].map((u) => f[u]));
      for (let chip = least; chip < chips; chip++) {
        if (load[chip] + graph.seconds[op] >= best) continue;
        f[op] = chip;
        load[chip] += graph.seconds[op];
        place(i + 1);
        load[chip] -= graph.seconds[op];
      }
    })(0);
    return found;
  }

  // Credits of ops, as in mcm/agent/credit.py and mcm/searches/moves.py, where a move may leave a chip empty.
  const POWER = 8, SHARP = 0.01; // as in searches.moves and agent.credit

  // Gains of an op one chip lower and one higher, [[down, up]] by op; as flow_gains, before the mean under the policy is taken off.
  function flow(graph, at, chips, link) {
    const loads = latencies(graph, at, chips, link), mean = loads.reduce((a, b) => a + b, 0) / chips;
    const share = graph.seconds.reduce((a, b) => a + b, 0) / chips, excess = [0];
    loads.forEach((t) => excess.push(excess[excess.length - 1] + (t - mean) / share));
    const gains = graph.seconds.map((seconds, op) => {
      const s = seconds / share, c = at[op];
      return [c > 0 ? -2 * excess[c] * s - s * s : 0, c < chips - 1 ? 2 * excess[c + 1] * s - s * s : 0];
    });
    const rms = Math.sqrt(gains.flat().reduce((a, g) => a + g * g, 0) / (3 * gains.length)) || 1;
    return gains.map((pair) => pair.map((g) => Math.tanh(g / rms)));
  }

  const moved = (at, op, side) => at.map((c, i) => (i === op ? c + side : c));
  // All other ops staying: no edge runs back, none spans more than one link, and no chip before the last is left empty.
  const allowed = (graph, at, op, side, chips) => {
    const y = moved(at, op, side), held = new Set(y);
    const chained = ([u, v]) => (u !== op && v !== op) || (y[u] <= y[v] && y[v] <= y[u] + 1);
    return y[op] >= 0 && y[op] < chips && held.size === Math.max(...y) + 1 && graph.op_edges.every(chained);
  };

  function exact(graph, at, chips, link) {
    const share = graph.seconds.reduce((a, b) => a + b, 0) / chips;
    const worth = (x) => -Math.log(latencies(graph, x, chips, link).reduce((sum, t) => sum + (t / share) ** POWER, 0)) / POWER, now = worth(at);
    return at.map((_, op) => [-1, 1].map((side) => (allowed(graph, at, op, side, chips) ? Math.tanh((worth(moved(at, op, side)) - now) / SHARP) : 0)));
  }

  Object.assign(lm, { chips: { violations, triangles, latencies, runtime, memory, Solver, sampleRepair, fixRepair, optimum, credits: { flow, exact, moved, allowed } } });
})((globalThis.lm = globalThis.lm || {}));
