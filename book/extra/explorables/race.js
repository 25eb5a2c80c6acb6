// The race: the genetic algorithm with uniform mutants, with REGAL's laws and with the eigenvector's, side by side.
"use strict";
(function (lm) {
  const LANES = [["brkga", "uniform mutants (BRKGA)", "lm-line-0"], ["regal", "REGAL's laws", "lm-line-1"], ["fiedler", "the eigenvector's", "lm-line-2"], ["yours", "yours", "lm-line-3"]];
  const LIMIT = 5000;

  lm.explorables.race = function (root, data) {
    const { frame, slider, button, player, select, h, colour } = lm.ui, { prepare, decode, beta, uniform, Brkga } = lm.schedule;
    const f = frame(root, "race"), narrow = (width) => width < 480, p = f.picture((width) => (narrow(width) ? 266 : 230), "the best schedule of each search so far"), knobs = f.row("the law of one op");
    const law = h("div", { class: "lm-picture" }), plan = h("div", { class: "lm-picture" });
    f.live.append(law, plan);
    const q = lm.ui.picture(law, (width) => (narrow(width) ? 112 : 96), "the law of one op"), g = lm.ui.picture(plan, 260, "the best schedule and its memory");
    const problem = prepare(data.graph, data.devices), n = problem.n;
    let seed = 1, runs = {}, curves = {}, shown = "regal", changed = null;
    player(f.bar, "race", () => advance(2), 60);
    button(f.bar, "one generation", () => advance(1), { "data-step": true });
    button(f.bar, "start again", () => { seed += 1; begin(); });
    const whose = select(f.bar, "schedule of", LANES.map(([k, words]) => [k, words]), (v) => { shown = v; draw(); });
    const op = slider(knobs, { name: "op", label: "op", min: 0, max: n - 1, value: 3, show: (v) => data.graph.ops[v], change: () => { load(); draw(); } });
    const steps = [0.5, 1, 1.5, 2, 3, 5, 8];
    const alpha = slider(knobs, { name: "alpha", label: "α of device 0", values: steps, value: 1, change: mine });
    const beta_ = slider(knobs, { name: "beta", label: "β of device 0", values: steps, value: 1, change: mine });

    const own = () => changed || (changed = data.laws.regal.map((values) => values.slice()));
    function load() {
      const values = changed || data.laws.regal, i = op.value * data.devices;
      alpha.set(steps.includes(values[0][i]) ? values[0][i] : 1);
      beta_.set(steps.includes(values[1][i]) ? values[1][i] : 1);
    }

    // The knobs change REGAL's law of one op into yours, and its search starts again.
    function mine() {
      const i = op.value * data.devices, values = own();
      values[0][i] = alpha.value;
      values[1][i] = beta_.value;
      shown = "yours";
      whose.value = "yours";
      begin();
    }

    function begin() {
      runs = {
        brkga: new Brkga(problem, seed, null), regal: new Brkga(problem, seed, data.laws.regal),
        fiedler: new Brkga(problem, seed, data.laws.fiedler), yours: new Brkga(problem, seed, changed || data.laws.regal),
      };
      curves = Object.fromEntries(LANES.map(([k]) => [k, [[runs[k].evaluations, runs[k].best.cost]]]));
      draw();
    }

    function advance(generations) {
      for (let i = 0; i < generations && runs.brkga.evaluations < LIMIT; i++) {
        for (const [k] of LANES) {
          runs[k].step();
          curves[k].push([runs[k].evaluations, runs[k].best.cost]);
        }
      }
      draw();
      return runs.brkga.evaluations < LIMIT;
    }

    const gap = (cost) => 100 * (cost / data.best_s - 1);

    function draw() {
      const { width } = p.clear(), left = 46, w = width - left - 8, tall = 146, columns = narrow(width) ? 1 : 2, top = 10;
      const most = Math.max(...LANES.map(([k]) => gap(curves[k][0][1]))), y = (v) => top + tall - (tall * gap(v)) / most, x = (e) => left + (w * e) / LIMIT;
      p.add("rect", { x: left, y: top, width: w, height: tall, class: "lm-room" });
      for (const share of [0, 0.5, 1]) p.text(left - 4, top + tall - tall * share + 4, `${(most * share).toFixed(0)} %`, { "text-anchor": "end" });
      p.text(left, top + tall + 16, `gap to the best known; → evaluations, to ${LIMIT}`);
      LANES.forEach(([k, words, line], i) => {
        if (k === "yours" && !changed) return;
        p.add("path", { d: curves[k].map(([e, v], j) => `${j ? "L" : "M"}${x(e).toFixed(1)} ${y(v).toFixed(1)}`).join(""), class: `lm-line ${line}` });
        const at = left + ((i % columns) * w) / 2, place = 18 + Math.floor(i / columns) * 18;
        p.add("line", { x1: at, x2: at + 18, y1: top + tall + 14 + place, y2: top + tall + 14 + place, class: `lm-line ${line}` });
        p.text(at + 24, top + tall + 18 + place, `${words}: ${gap(runs[k].best.cost).toFixed(1)} %`);
      });
      drawLaw();
      drawPlan();
      f.say(`Generation ${runs.brkga.generation}, ${runs.brkga.evaluations} evaluations. Gap: ${LANES.filter(([k]) => k !== "yours" || changed).map(([k, words]) => `${words} ${gap(runs[k].best.cost).toFixed(1)} %`).join(", ")}.`);
      f.write({ seed, op: op.value, alpha: alpha.value, beta: beta_.value, show: shown });
    }

    // The density of the op's law, and where forty draws from it fall.
    function drawLaw() {
      const { width } = q.clear(), values = changed || data.laws.regal, i = op.value * data.devices, left = 46, w = width - left - 8;
      const a = values[0][i], b = values[1][i], a1 = values[0][i + 1], b1 = values[1][i + 1];
      [[a, b, 0], [a1, b1, 1]].forEach(([s, t, device]) => {
        const density = Array.from({ length: 99 }, (_, k) => { const v = (k + 1) / 100; return Math.pow(v, s - 1) * Math.pow(1 - v, t - 1); }), most = Math.max(...density);
        p_line(q, density.map((d, k) => [left + (w * (k + 1)) / 100, 60 - (46 * d) / most]), device ? "lm-line lm-line-2" : "lm-line lm-line-1");
      });
      const draws = uniform(11), first = Array.from({ length: 400 }, () => beta(a, b, draws) > beta(a1, b1, draws)).filter(Boolean).length / 4;
      for (let k = 0; k < 40; k++) q.add("circle", { cx: left + w * beta(a, b, draws), cy: 68, r: 2, class: "lm-dot-1" });
      const words = [`affinity of ${data.graph.ops[op.value]}: Beta(${a}, ${b}) for device 0, `, `Beta(${a1}, ${b1}) for 1; device 0 in ${first.toFixed(0)} % of draws`];
      (narrow(width) ? words : [words.join("")]).forEach((line, i) => q.text(left, 88 + 16 * i, line));
    }
    function p_line(target, points, cls) { target.add("path", { d: points.map(([x, y], j) => `${j ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(""), class: cls }); }

    function drawPlan() {
      const { width } = g.clear(), done = decode(problem, runs[shown].best.chromosome, true), left = 46, w = width - left - 8, x = (s) => left + (w * s) / done.makespan;
      g.text(left, 12, `the best schedule of ${LANES.find(([k]) => k === shown)[1]}: ${(done.makespan * 1e3).toFixed(3)} ms`, { class: "lm-strong" });
      for (let d = 0; d < data.devices; d++) {
        g.text(left - 4, 36 + d * 30, `dev. ${d}`, { "text-anchor": "end" });
        g.add("rect", { x: left, y: 20 + d * 30, width: w, height: 24, class: "lm-room" });
      }
      for (const step of done.steps) {
        if (step.op === undefined) g.add("line", { x1: x(step.start), x2: x(step.start), y1: 44, y2: 50, class: "lm-edge" });
        else g.add("rect", { x: x(step.start), y: 20 + step.device * 30, width: Math.max(0.5, x(step.finish) - x(step.start)), height: 24, fill: colour(step.op), class: step.op === op.value ? "lm-picked" : null });
      }
      const entries = runs[shown].best.chromosome;
      g.text(left, 92, "its chromosome: affinity for device 0, device 1");
      for (let i = 0; i < n; i++) for (let d = 0; d < data.devices; d++) g.add("rect", { x: left + (w * i) / n, y: 98 + d * 12, width: w / n - 0.5, height: 11, class: "lm-gene", "fill-opacity": (0.08 + 0.92 * entries[i * data.devices + d]).toFixed(2) });
      const most = Math.max(...done.profile.map(([, , bytes]) => bytes));
      g.text(left, 142, `memory of each device over time; the most is ${(done.peak / 2 ** 20).toFixed(1)} MiB`);
      for (let d = 0; d < data.devices; d++) {
        let last = 0;
        const points = [[left, 250]];
        for (const [device, at, bytes] of done.profile) if (device === d) { points.push([x(at), 250 - (96 * last) / most], [x(at), 250 - (96 * bytes) / most]); last = bytes; }
        p_line(g, points, `lm-line lm-line-${d ? 2 : 1}`);
      }
    }

    const link = f.read();
    if (link.seed) seed = Math.max(1, Number(link.seed) || 1);
    if (link.op) op.set(Math.max(0, Math.min(n - 1, Number(link.op) || 0)));
    load();
    if (LANES.some(([k]) => k === link.show)) { shown = link.show; whose.value = shown; } else whose.value = shown;
    if (link.show === "yours" && steps.includes(Number(link.alpha)) && steps.includes(Number(link.beta))) { alpha.set(Number(link.alpha)); beta_.set(Number(link.beta)); mine(); } else begin();
    f.onresize(draw);
  };
})((globalThis.lm = globalThis.lm || {}));
