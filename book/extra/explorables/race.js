// The race: the genetic algorithm with uniform mutants, with REGAL's laws and with the eigenvector's, side by side.
"use strict";
(function (lm) {
  const LANES = [["brkga", "uniform mutants (BRKGA)", "lm-line-0", "BRKGA"], ["regal", "REGAL's laws", "lm-line-1", "REGAL"], ["fiedler", "the eigenvector's", "lm-line-2", "eigenvector"], ["yours", "yours", "lm-line-3", "yours"]];
  const GENERATION = 80; // evaluations

  lm.explorables.race = function (root, data) {
    const { frame, slider, button, player, select, h, colour } = lm.ui, { prepare, decode, beta, uniform, Brkga } = lm.schedule;
    const f = frame(root, "race"), narrow = (width) => width < 480, p = f.picture((width) => (narrow(width) ? 266 : 230), "the best schedule of each search so far"), knobs = f.row("the law of one op");
    const law = h("div", { class: "lm-picture" }), plan = h("div", { class: "lm-picture" });
    f.live.append(law, plan);
    const q = lm.ui.picture(law, (width) => (narrow(width) ? 112 : 96), "the law of one op"), g = lm.ui.picture(plan, 260, "the best schedule and its memory");
    const many = h("div", { class: "lm-picture" }), limit = data.evaluations;
    f.live.insertBefore(many, law);
    const m = lm.ui.picture(many, 152, "how thirty races end");
    let at = data.graphs[0], problem = prepare(at.graph, data.devices), n = problem.n, ended = 0, judged = false;
    let seed = 1, runs = {}, curves = {}, shown = "regal", changed = null;
    const which = select(f.bar, "graph", data.graphs.map((one, i) => [String(i), one.name]), (i) => { choose(Number(i)); begin(); });
    player(f.bar, "race", () => advance(2), 60);
    button(f.bar, "one generation", () => advance(1), { "data-step": true });
    button(f.bar, "start again", () => { seed += 1; begin(); });
    const thirty = player(f.bar, `race ${data.races} times`, () => { ended = ended >= data.races ? 1 : ended + 1; judged = ended === data.races; draw(); return !judged; }, 60);
    thirty.button.dataset.many = "";
    const whose = select(f.bar, "schedule of", LANES.map(([k, words]) => [k, words]), (v) => { shown = v; draw(); });
    const op = slider(knobs, { name: "op", label: "op", min: 0, max: n - 1, value: 3, show: (v) => at.graph.ops[v], change: () => { load(); draw(); } });
    const steps = [0.5, 1, 1.5, 2, 3, 4, 5, 8];
    const alpha = slider(knobs, { name: "alpha", label: "α of device 0", values: steps, value: 1, change: mine });
    const beta_ = slider(knobs, { name: "beta", label: "β of device 0", values: steps, value: 1, change: mine });

    const own = () => changed || (changed = [at.laws.regal[0].slice(), at.laws.regal[1].slice(), at.laws.regal[2]]);
    function choose(i) {
      at = data.graphs[i];
      problem = prepare(at.graph, data.devices);
      n = problem.n;
      changed = null;
      ended = 0;
      thirty.stop();
      if (shown === "yours") whose.value = shown = "regal";
      op.limit(n - 1);
      op.set(Math.min(op.value, n - 1));
      load();
    }
    function load() {
      const values = changed || at.laws.regal, i = op.value * data.devices;
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

    function started(own) { return new Brkga(problem, seed, own, Boolean(own && own[2])); }
    const over = () => runs.brkga.evaluations + GENERATION > limit;

    function begin() {
      judged = false;
      runs = {
        brkga: started(null), regal: started(at.laws.regal), fiedler: started(at.laws.fiedler), yours: started(changed || at.laws.regal),
      };
      curves = Object.fromEntries(LANES.map(([k]) => [k, [[runs[k].evaluations, runs[k].best.cost]]]));
      draw();
    }

    function advance(generations) {
      for (let i = 0; i < generations && !over(); i++) {
        for (const [k] of LANES) {
          runs[k].step();
          curves[k].push([runs[k].evaluations, runs[k].best.cost]);
        }
      }
      draw();
      return !over();
    }

    const gap = (cost) => 100 * (cost / at.best_s - 1);

    function draw() {
      const { width } = p.clear(), left = 46, w = width - left - 8, tall = 146, columns = narrow(width) ? 1 : 2, top = 10;
      const most = Math.max(1, ...LANES.map(([k]) => gap(curves[k][0][1]))), y = (v) => top + tall - (tall * gap(v)) / most, x = (e) => left + (w * e) / limit;
      p.add("rect", { x: left, y: top, width: w, height: tall, class: "lm-room" });
      for (const share of [0, 0.5, 1]) p.text(left - 4, top + tall - tall * share + 4, `${(most * share).toFixed(0)} %`, { "text-anchor": "end" });
      p.text(left, top + tall + 16, `gap to the best known; → evaluations, to ${limit}`);
      LANES.forEach(([k, words, line], i) => {
        if (k === "yours" && !changed) return;
        p.add("path", { d: curves[k].map(([e, v], j) => `${j ? "L" : "M"}${x(e).toFixed(1)} ${y(v).toFixed(1)}`).join(""), class: `lm-line ${line}` });
        const at = left + ((i % columns) * w) / 2, place = 18 + Math.floor(i / columns) * 18;
        p.add("line", { x1: at, x2: at + 18, y1: top + tall + 14 + place, y2: top + tall + 14 + place, class: `lm-line ${line}` });
        p.text(at + 24, top + tall + 18 + place, `${words}: ${gap(runs[k].best.cost).toFixed(1)} %`);
      });
      drawMany();
      drawLaw();
      drawPlan();
      f.say(judged ? verdict() : `${over() ? "The race is over, and one race proves nothing. " : ""}Generation ${runs.brkga.generation}, ${runs.brkga.evaluations} evaluations. Gap: ${LANES.filter(([k]) => k !== "yours" || changed).map(([k, words]) => `${words} ${gap(runs[k].best.cost).toFixed(1)} %`).join(", ")}.`);
      f.write({ graph: which.value, seed, op: op.value, alpha: alpha.value, beta: beta_.value, show: shown });
    }

    // A dot for the end of each race, and the mean of those shown.
    function drawMany() {
      const { width } = m.clear(), left = narrow(width) ? 92 : 170, w = width - left - 60, lanes = LANES.filter(([k]) => at.ends[k]), most = Math.max(1, ...lanes.flatMap(([k]) => at.ends[k].map(gap))), x = (v) => left + (w * gap(v)) / most;
      m.text(4, 14, `${ended} of ${data.races} races${narrow(width) ? "" : `, ${limit} evaluations each`}: a dot where each ends`, { class: "lm-strong" });
      lanes.forEach(([k, words, line, short], i) => {
        const y = 40 + 34 * i, ends = at.ends[k].slice(0, ended);
        m.text(left - 8, y + 4, narrow(width) ? short : words, { "text-anchor": "end" });
        m.add("line", { x1: left, x2: left + w, y1: y, y2: y, class: "lm-edge" });
        ends.forEach((v, j) => m.add("circle", { cx: x(v), cy: y - 9 + ((j * 7) % 19), r: 2.5, class: "lm-gene", "fill-opacity": 0.6, "data-lane": k }));
        if (!ended) return;
        const mean = ends.reduce((sum, v) => sum + v, 0) / ended;
        m.add("line", { x1: x(mean), x2: x(mean), y1: y - 13, y2: y + 13, class: `lm-line ${line}` });
        m.text(left + w + 6, y + 4, `${gap(mean).toFixed(1)} %`);
      });
      m.text(left, 144, `gap to the best known, to ${most.toFixed(0)} %; stroke: mean`);
    }

    // Who ends ahead of BRKGA: in how many races, and by the mean.
    function verdict() {
      const races = data.races, mean = (k) => gap(at.ends[k].reduce((sum, v) => sum + v, 0) / races).toFixed(1);
      const against = ([k, name]) => {
        const ahead = at.ends[k].filter((v, i) => v < at.ends.brkga[i] * (1 - 1e-9)).length, behind = at.ends[k].filter((v, i) => v > at.ends.brkga[i] * (1 + 1e-9)).length;
        return `${name} ends ahead of BRKGA in ${ahead} of ${races} races, behind in ${behind}`;
      };
      return `Mean gaps: BRKGA ${mean("brkga")} %, REGAL ${mean("regal")} %, the eigenvector ${mean("fiedler")} %. ${[["regal", "REGAL"], ["fiedler", "the eigenvector"]].map(against).join("; ")}.`;
    }

    // The density of the op's law, and where forty draws from it fall.
    function drawLaw() {
      const { width } = q.clear(), values = changed || at.laws.regal, i = op.value * data.devices, left = 46, w = width - left - 8;
      const a = values[0][i], b = values[1][i], a1 = values[0][i + 1], b1 = values[1][i + 1];
      [[a, b, 0], [a1, b1, 1]].forEach(([s, t, device]) => {
        const density = Array.from({ length: 99 }, (_, k) => { const v = (k + 1) / 100; return Math.pow(v, s - 1) * Math.pow(1 - v, t - 1); }), most = Math.max(...density);
        p_line(q, density.map((d, k) => [left + (w * (k + 1)) / 100, 60 - (46 * d) / most]), device ? "lm-line lm-line-2" : "lm-line lm-line-1");
      });
      const draws = uniform(11), first = Array.from({ length: 400 }, () => beta(a, b, draws) > beta(a1, b1, draws)).filter(Boolean).length / 4;
      for (let k = 0; k < 40; k++) q.add("circle", { cx: left + w * beta(a, b, draws), cy: 68, r: 2, class: "lm-dot-1" });
      const words = [`affinity of ${at.graph.ops[op.value]}: Beta(${a}, ${b}) for device 0, `, `Beta(${a1}, ${b1}) for 1; device 0 in ${first.toFixed(0)} % of draws`];
      (narrow(width) ? words : [words.join("")]).forEach((line, i) => q.text(left, 88 + 16 * i, line));
    }
    function p_line(target, points, cls) { target.add("path", { d: points.map(([x, y], j) => `${j ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(""), class: cls }); }

    function drawPlan() {
      const { width } = g.clear(), done = decode(problem, runs[shown].best.chromosome, true), left = 46, w = width - left - 8, x = (s) => left + (w * s) / done.makespan;
      g.text(left, 12, `${narrow(width) ? "" : "the best schedule of "}${LANES.find(([k]) => k === shown)[1]}: ${(done.makespan * 1e3).toFixed(3)} ms`, { class: "lm-strong" });
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
      g.text(left, 142, `memory of each device over time, to ${(done.peak / 2 ** 20).toFixed(1)} MiB`);
      for (let d = 0; d < data.devices; d++) {
        let last = 0;
        const points = [[left, 250]];
        for (const [device, at, bytes] of done.profile) if (device === d) { points.push([x(at), 250 - (96 * last) / most], [x(at), 250 - (96 * bytes) / most]); last = bytes; }
        p_line(g, points, `lm-line lm-line-${d ? 2 : 1}`);
      }
    }

    const link = f.read();
    if (data.graphs[Number(link.graph)]) { which.value = link.graph; choose(Number(link.graph)); }
    if (link.seed) seed = Math.max(1, Number(link.seed) || 1);
    if (link.op) op.set(Math.max(0, Math.min(n - 1, Number(link.op) || 0)));
    load();
    if (LANES.some(([k]) => k === link.show)) { shown = link.show; whose.value = shown; } else whose.value = shown;
    if (link.show === "yours" && steps.includes(Number(link.alpha)) && steps.includes(Number(link.beta))) { alpha.set(Number(link.alpha)); beta_.set(Number(link.beta)); mine(); } else begin();
    if (link.races) { ended = data.races; judged = true; draw(); }
    f.onresize(draw);
  };
})((globalThis.lm = globalThis.lm || {}));
