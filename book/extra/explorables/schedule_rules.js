// Paper 3's chromosomes, decoder and genetic algorithm, by the rules of src/learned_mapping/regal.
"use strict";
(function (lm) {
  // The lists that the decoder asks for, made once per graph.
  function prepare(graph, devices) {
    const n = graph.ops.length, inputs = graph.ops.map(() => []), outputs = graph.ops.map(() => []), users = graph.tensor_bytes.map(() => []);
    graph.edge_tensor.forEach((tensor, i) => {
      inputs[graph.edge_consumer[i]].push(tensor);
      users[tensor].push(graph.edge_consumer[i]);
    });
    graph.tensor_producer.forEach((op, tensor) => outputs[op].push(tensor));
    return { graph, devices, n, inputs, outputs, users, length: n * (devices + 1) + graph.tensor_bytes.length * devices };
  }

  // Ready items, the largest priority first, of equals the lower number.
  class Ready {
    constructor() { this.items = []; }
    first(a, b) { return a[0] > b[0] || (a[0] === b[0] && a[1] < b[1]); }
    push(key, item) {
      const items = this.items;
      let at = items.push([key, item]) - 1;
      while (at > 0) {
        const parent = (at - 1) >> 1;
        if (!this.first(items[at], items[parent])) break;
        [items[at], items[parent]] = [items[parent], items[at]];
        at = parent;
      }
    }
    pop() {
      const items = this.items, top = items[0], last = items.pop();
      if (items.length) {
        items[0] = last;
        for (let at = 0; ;) {
          let child = 2 * at + 1;
          if (child >= items.length) break;
          if (child + 1 < items.length && this.first(items[child + 1], items[child])) child += 1;
          if (!this.first(items[child], items[at])) break;
          [items[at], items[child]] = [items[child], items[at]];
          at = child;
        }
      }
      return top[1];
    }
  }

  // Decodes and simulates (Appendix A.2): {makespan, peak, placement, steps: [{op | tensor, device, from, start, finish}], held}.
  function decode(p, chromosome, trace = false) {
    const { graph, devices: d, n } = p, size = graph.tensor_bytes;
    const placement = graph.ops.map((_, op) => {
      let best = 0;
      for (let k = 1; k < d; k++) if (chromosome[op * d + k] > chromosome[op * d + best]) best = k;
      return best;
    });
    const clock = new Array(d).fill(0), held = clock.slice(), ready = new Ready(), steps = [], profile = [];
    graph.weight_bytes.forEach((w, op) => { held[placement[op]] += w; });
    const waiting = p.inputs.map((list) => list.length), uses = new Array(size.length * d).fill(0);
    const arrive = (op) => { if (--waiting[op] === 0) ready.push(chromosome[n * d + op], op); };
    waiting.forEach((count, op) => { if (!count) ready.push(chromosome[n * d + op], op); });
    const peak = held.slice();
    const note = (device) => { if (trace) profile.push([device, clock[device], held[device]]); };
    while (ready.items.length) {
      const item = ready.pop();
      if (item < n) {
        const device = placement[item], start = clock[device];
        clock[device] = start + graph.seconds[item];
        for (const tensor of p.outputs[item]) held[device] += size[tensor];
        peak[device] = Math.max(peak[device], held[device]);
        note(device);
        for (const tensor of p.inputs[item]) {
          if (--uses[tensor * d + device] === 0 && !(graph.tensor_is_output[tensor] && placement[graph.tensor_producer[tensor]] === device)) held[device] -= size[tensor];
        }
        for (const tensor of p.outputs[item]) {
          for (const op of p.users[tensor]) {
            uses[tensor * d + placement[op]] += 1;
            if (placement[op] === device) arrive(op);
          }
          for (let target = 0; target < d; target++) {
            if (target !== device && uses[tensor * d + target] > 0) {
              uses[tensor * d + device] += 1;
              const transfer = n + tensor * d + target;
              ready.push(chromosome[n * d + transfer], transfer);
            }
          }
          if (uses[tensor * d + device] === 0 && !graph.tensor_is_output[tensor]) held[device] -= size[tensor];
        }
        steps.push({ op: item, device, start, finish: clock[device] });
      } else {
        const tensor = Math.floor((item - n) / d), target = item - n - tensor * d, source = placement[graph.tensor_producer[tensor]];
        clock[source] = clock[target] = Math.max(clock[source], clock[target]);
        held[target] += size[tensor];
        peak[target] = Math.max(peak[target], held[target]);
        note(target);
        if (--uses[tensor * d + source] === 0 && !graph.tensor_is_output[tensor]) held[source] -= size[tensor];
        for (const op of p.users[tensor]) if (placement[op] === target) arrive(op);
        steps.push({ tensor, device: target, from: source, start: clock[target], finish: clock[target] });
      }
    }
    return { makespan: Math.max(...clock), peak: Math.max(...peak), placement, steps, profile };
  }

  // A generator of uniform numbers in [0, 1) from a seed.
  function uniform(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let z = state;
      z = Math.imul(z ^ (z >>> 15), z | 1);
      z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
      return ((z ^ (z >>> 14)) >>> 0) / 4294967296;
    };
  }

  // Gamma by Marsaglia and Tsang, Beta by two of them.
  function gamma(shape, random) {
    if (shape < 1) return gamma(shape + 1, random) * Math.pow(1 - random(), 1 / shape);
    const d = shape - 1 / 3, c = 1 / Math.sqrt(9 * d);
    for (;;) {
      const x = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random()), v = Math.pow(1 + c * x, 3);
      if (v > 0 && Math.log(1 - random()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
    }
  }

  function beta(a, b, random) {
    if (a === 1 && b === 1) return random();
    const x = gamma(a, random), y = gamma(b, random);
    return x / (x + y);
  }

  // The genetic algorithm, a generation at a time. law: [alphas, betas] of the first entries of a mutant, or null.
  class Brkga {
    constructor(p, seed, law, inInitial = false, sizes = { population: 100, elites: 20, mutants: 15, bias: 0.7 }) {
      Object.assign(this, { p, law, sizes, random: uniform(seed), generation: 0, evaluations: 0 });
      this.population = Array.from({ length: sizes.population }, () => this.scored(this.mutant(inInitial)));
      this.rank();
    }

    mutant(byLaw) {
      const [alpha, beta_] = (byLaw && this.law) || [[], []];
      return Float64Array.from({ length: this.p.length }, (_, i) => (i < alpha.length ? beta(alpha[i], beta_[i], this.random) : this.random()));
    }

    scored(chromosome) {
      this.evaluations += 1;
      return { chromosome, cost: decode(this.p, chromosome).makespan };
    }

    rank() { this.population.sort((a, b) => a.cost - b.cost); }

    child() {
      const { elites, population, bias } = this.sizes, pick = (low, high) => this.population[low + Math.floor(this.random() * (high - low))].chromosome;
      const elite = pick(0, elites), other = pick(elites, population);
      return elite.map((value, i) => (this.random() < bias ? value : other[i]));
    }

    step() {
      const { population, elites, mutants } = this.sizes, next = this.population.slice(0, elites);
      for (let i = 0; i < mutants; i++) next.push(this.scored(this.mutant(true)));
      while (next.length < population) next.push(this.scored(this.child()));
      this.population = next;
      this.rank();
      this.generation += 1;
    }

    get best() { return this.population[0]; }
  }

  Object.assign(lm, { schedule: { prepare, decode, uniform, beta, Brkga } });
})((globalThis.lm = globalThis.lm || {}));
