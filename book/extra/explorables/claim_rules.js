// The rule of the papers' claims, as learned_mapping_companion.claims has it: from stored rows to a number, its interval
// and a verdict. Nothing here knows of a page.
"use strict";
(function (lm) {
  const DRAWS = 2000, DEVIATIONS = 1.96, LEVEL = { ratio: 1, gap: 1, share_better: 0.5 };
  const UNDECIDED = "undecided", NOT_YET_RUN = "not yet run", NOT_TESTABLE = "not testable here";
  const KINDS = ["reproduced", "same direction", UNDECIDED, "not reproduced", NOT_YET_RUN, NOT_TESTABLE];

  // NumPy's RandomState(seed).random_sample(), a Mersenne twister: a bootstrap draws what Python's draws.
  function twister(seed) {
    const key = new Uint32Array(624);
    key[0] = seed;
    for (let i = 1; i < 624; i++) key[i] = Math.imul(1812433253, key[i - 1] ^ (key[i - 1] >>> 30)) + i;
    let at = 624;
    function word() {
      if (at === 624) {
        for (let k = 0; k < 624; k++) {
          const y = (key[k] & 0x80000000) | (key[(k + 1) % 624] & 0x7fffffff);
          key[k] = key[(k + 397) % 624] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
        }
        at = 0;
      }
      let y = key[at++];
      y ^= y >>> 11;
      y ^= (y << 7) & 0x9d2c5680;
      y ^= (y << 15) & 0xefc60000;
      return (y ^ (y >>> 18)) >>> 0;
    }
    return () => ((word() >>> 5) * 67108864 + (word() >>> 6)) / 9007199254740992;
  }

  // Draws are the same at every call; those of a few sizes are kept.
  const kept = new Map();
  function once(name, make) {
    if (!kept.has(name)) kept.set(name, make());
    if (kept.size > 12) kept.delete(kept.keys().next().value);
    return kept.get(name);
  }
  function places(seed, count) {
    return once(`places ${seed} ${count}`, () => {
      const random = twister(seed);
      return Uint16Array.from({ length: DRAWS * count }, () => Math.floor(random() * count));
    });
  }
  function deviates(seed, count) {
    return once(`deviates ${seed} ${count}`, () => {
      const random = twister(seed);
      return Float64Array.from({ length: DRAWS * count }, () => {
        const flat = random(), turn = random();
        return (Math.sqrt(-2 * Math.log1p(-flat)) * Math.cos(2 * Math.PI * turn)) / DEVIATIONS;
      });
    });
  }

  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const OVER = {
    mean,
    sum: (values) => values.reduce((a, b) => a + b, 0),
    min: (values) => Math.min(...values),
    max: (values) => Math.max(...values),
    geomean: (values) => Math.exp(mean(values.map(Math.log))),
  };
  const CONTRASTS = {
    value: (a) => a, ratio: (a, b) => a / b, difference: (a, b) => a - b, share_better: (a, b) => Number(a > b), gap: (a, b) => a / b,
  };

  // The number that a rule makes of the values of its sides.
  function number(rule, sides) {
    if (rule.kind === "gap") {
      const [a, b] = sides.map((side) => Math.expm1(mean(side.map((v) => Math.log1p(v / 100)))));
      return a / b;
    }
    const of = CONTRASTS[rule.kind];
    return OVER[rule.over](sides[0].map((a, i) => of(a, sides[1] && sides[1][i])));
  }

  // A function that fills an array with the d-th draw of a side.
  function drawn(side, which) {
    const count = side.length, chosen = places(0, count), trainings = side[0].by_training.length;
    if (trainings > 1 && side.every((e) => e.by_training.length === trainings)) {
      const turns = places(1, trainings);
      return (d, values) => {
        for (let i = 0; i < count; i++) {
          let sum = 0;
          for (let t = 0; t < trainings; t++) sum += side[chosen[d * count + i]].by_training[turns[d * trainings + t]];
          values[i] = sum / trainings;
        }
      };
    }
    const still = side.every((e) => e.low === e.high), far = still ? null : deviates(2 + which, count);
    return (d, values) => {
      for (let i = 0; i < count; i++) {
        const e = side[chosen[d * count + i]], by = still ? 0 : far[d * count + i];
        values[i] = e.value + by * (by > 0 ? e.high - e.value : e.value - e.low);
      }
    };
  }

  // [value, low, high] of one number of several instances; null where a draw of it is none.
  function joined(rule, sides) {
    const count = sides[0].length, end = (name) => sides.map((side) => side.map((e) => e[name]));
    const value = number(rule, end("value"));
    let ends;
    if (count === 1 || rule.over === "min" || rule.over === "max") {
      const [low, high] = [end("low"), end("high")], of = CONTRASTS[rule.kind], names = sides.length > 1 ? [0, 1] : [0];
      const corners = sides[0].map((_, i) => [low, high].flatMap((a) => names.map((k) => of(a[0][i], sides[1] && [low, high][k][1][i]))));
      ends = [Math.min, Math.max].map((most) => OVER[rule.over](corners.map((corner) => most(...corner))));
    } else {
      const fill = sides.map(drawn), values = sides.map(() => new Array(count)), numbers = new Float64Array(DRAWS);
      for (let d = 0; d < DRAWS; d++) {
        fill.forEach((one, k) => one(d, values[k]));
        numbers[d] = number(rule, values);
      }
      numbers.sort();
      ends = numbers.every(Number.isFinite) ? [numbers[Math.trunc(0.025 * DRAWS)], numbers[Math.trunc(0.975 * DRAWS) - 1]] : [NaN, NaN];
    }
    const all = [value, ...ends];
    return all.every(Number.isFinite) ? all : null;
  }

  // Instance -> what its row says, of the rows that have these cells.
  function byInstance(rows, keys) {
    const found = new Map(), asked = Object.entries(keys);
    for (const row of rows) {
      if (row.instance === "all" && !("instance" in keys)) continue; // a summary over instances is none of them
      if (!asked.every(([key, value]) => String(row[key] ?? "None") === value)) continue;
      const by_training = row.by_training || [], widest = by_training.length ? by_training : [row.value];
      found.set(row.instance, { row, value: row.value, low: row.low ?? Math.min(...widest), high: row.high ?? Math.max(...widest), by_training });
    }
    return found;
  }

  // [instance, ours, theirs] of the instances that both sides of a rule have.
  function pairs(rule, rows) {
    const ours = [...byInstance(rows, rule.rows)];
    if (rule.kind === "value") return ours.map(([name, a]) => [name, a]);
    const theirs = byInstance(rows, { ...rule.rows, ...rule.against });
    if ("instance" in rule.against) {
      const others = [...theirs.values()];
      return ours.slice(0, others.length).map(([name, a], i) => [name, a, others[i]]);
    }
    return ours.filter(([name]) => theirs.has(name)).map(([name, a]) => [name, a, theirs.get(name)]);
  }

  function measure(rule, rows) {
    const both = pairs(rule, rows);
    if (!both.length || (rule.kind === "ratio" && both.some((pair) => pair[2].low <= 0))) return null;
    return joined(rule, both[0].slice(1).map((_, k) => both.map((pair) => pair[k + 1])));
  }

  const place = (row) => row.dataset ?? row.instance;
  // The rows of instances that count: every learner has learned what is asked for, and nobody has finished no game.
  function countingRows(rule, rows, learners) {
    const short = new Set(), named = rule.rows.instance;
    for (const method of new Set([rule.rows.method, rule.rows.baseline, rule.against.method])) {
      if (method === undefined) continue;
      const mine = rows.filter((row) => row.method === method), asks = learners[method] || {};
      let deciding = new Set(mine.filter((row) => row.metric === rule.rows.metric).map(place).filter((name) => name !== "all"));
      if (named !== undefined && named !== "all") deciding = new Set([...deciding].filter((name) => name === named));
      for (const [metric, least] of Object.entries({ games: 1, ...asks })) {
        const all = mine.filter((row) => row.metric === metric), there = all.filter((row) => row.instance === named);
        const counts = there.length ? there : all;
        if (!counts.length && metric in asks) return [];
        const asked = new Set(counts.map(place));
        for (const row of counts) if (row.value < least) short.add(place(row));
        if (metric in asks && [...deciding].some((name) => asked.has(name))) for (const name of deciding) if (!asked.has(name)) short.add(name);
      }
    }
    if (short.size && ("instance" in rule.rows || short.has("all"))) return [];
    return rows.filter((row) => !short.has(place(row)));
  }

  function verdict(claim, measured) {
    if (claim.not_testable) return NOT_TESTABLE;
    if (!measured) return NOT_YET_RUN;
    const [[low, high], [least, most]] = [claim.reproduced, claim.same].map(([a, b]) => [a ?? -Infinity, b ?? Infinity]);
    const [, from, to] = measured;
    if (low <= from && to <= high) return "reproduced";
    if (Math.min(low, least) <= from && to <= Math.max(high, most)) return "same direction";
    return to < Math.min(low, least) || from > Math.max(high, most) ? "not reproduced" : UNDECIDED;
  }

  // The rule with the method and the rival of a state in the places of its own.
  function changed(rule, { arm, rival, by }) {
    const rows = { ...rule.rows }, against = { ...rule.against };
    if (arm) rows.method = arm;
    if (rival && "method" in against) against.method = rival;
    else if (rival) rows.baseline = rival;
    if (by) {
      Object.assign(rows, { metric: `by_${by}`, baseline: against.method ?? "" });
      against.baseline = rows.method ?? "";
    }
    return { ...rule, rows, against };
  }

  const same = (state) => !state.arm && !state.rival && !state.by && !state.training && (state.line ?? null) === null && !(state.without && state.without.size);
  // The claim with another line from which a number is reproduced.
  const lined = (claim, line) => ((line ?? null) === null ? claim : { ...claim, reproduced: claim.falls ? [claim.reproduced[0], line] : [line, claim.reproduced[1]] });
  // A row of one training alone, where it is of that many.
  function ofTraining(row, training) {
    const each = row.by_training || [];
    return training > 0 && training <= each.length ? { ...row, value: each[training - 1], low: null, high: null, by_training: [] } : row;
  }
  // What the rule of a claim says in a state: {verdict, measured, rule, rows}, of the rows that count and are not left out.
  function answer(data, claim, rows, state) {
    if (!claim.rule) return { verdict: verdict(claim, null), measured: null };
    const rule = changed(claim.rule, state), counting = countingRows(rule, rows, data.learners), out = state.without || new Set();
    const families = data.artifacts[claim.artifact].families;
    const left = counting.filter((row) => !out.has(row.instance) && !out.has(families[row.instance])).map((row) => ofTraining(row, state.training));
    let measured = measure(rule, left);
    if (same(state) && claim.instances > 1) {
      const keys = Object.fromEntries(Object.entries(rule.rows).filter(([, value]) => value !== "all"));
      if (pairs({ ...rule, kind: "ratio", rows: keys }, left).length < claim.instances) measured = null;
    }
    const held = measured && claim.undecided && !state.arm && !state.rival;
    return { verdict: held ? UNDECIDED : verdict(lined(claim, state.line), measured), measured, rule, rows: left };
  }

  // The strongest of what does not learn, in the method's place and on the same instances: {method, measured, rule}.
  function strongest(data, claim, now) {
    const { rule, rows } = now, arm = rule.rows.method, ending = arm === "prod" ? "-prod" : "", known = new Set(data.plain[claim.paper]);
    const others = [arm, elsewhere(rule) ? "" : rule.against.method, rule.rows.baseline], counted = pairs(rule, rows).map((pair) => pair[0]), sign = claim.falls ? 1 : -1;
    let best = null;
    for (const method of [...new Set(rows.map((row) => row.method))].sort()) {
      const plain = known.has(method.endsWith(ending) ? method.slice(0, method.length - ending.length) : "");
      if (!plain || others.includes(method)) continue;
      const its = changed(rule, { arm: method }), there = new Set(pairs(its, rows).map((pair) => pair[0])), measured = counted.every((name) => there.has(name)) ? measure(its, rows) : null;
      if (measured && (!best || sign * measured[0] < sign * best.measured[0])) best = { method, measured, rule: its };
    }
    return best;
  }

  // Whether the two sides of a contrast differ in more than the method.
  const elsewhere = (rule) => rule.kind !== "value" && Object.keys(rule.against).join() !== "method";
  // A method's number against another's, by the same rule: on each instance, or, of extremes and of sides that differ in
  // more, one less the other, or over it.
  function lead({ rule, rows }, method) {
    if (rule.over === "min" || rule.over === "max" || elsewhere(rule)) {
      const [a, b] = [rule, changed(rule, { arm: method })].map((one) => measure(one, rows)), of = rule.kind in LEVEL ? CONTRASTS.ratio : CONTRASTS.difference;
      return a && b && [of(a[0], b[0]), of(a[1], b[2]), of(a[2], b[1])];
    }
    return measure({ ...rule, kind: rule.kind === "value" ? "difference" : rule.kind, against: { ...rule.against, method } }, rows);
  }
  // Whether a lead is on the better side of a tie with its whole interval.
  function adds(claim, [, low, high]) {
    const level = LEVEL[claim.rule.kind] || 0, more = low > level && low < high, less = high < level && low < high;
    const [better, worse] = claim.falls ? [less, more] : [more, less];
    return better ? "yes" : worse ? "no" : UNDECIDED;
  }

  // The rows of an artifact, from their columns.
  function rowsOf(data, artifact) {
    const { names, series } = data.artifacts[artifact];
    return series.flatMap(({ at, value, low, high, n, by_training, values, ...cells }) => names[at].map((instance, i) => (
      { instance, ...cells, value: value[i], low: low?.[i], high: high?.[i], n: n?.[i], by_training: by_training?.[i], values: values?.[i] })));
  }

  lm.claimRules = { KINDS, LEVEL, CONTRASTS, twister, measure, pairs, countingRows, verdict, changed, same, lined, answer, strongest, lead, adds, rowsOf };
})((globalThis.lm = globalThis.lm || {}));
