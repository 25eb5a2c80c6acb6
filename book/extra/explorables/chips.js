// Drag ops over chips: constraints checked as you go, loads, sliders for links and memory, FIX and SAMPLE at a click.
"use strict";
(function (lm) {
  lm.explorables.chips = function (root, data) {
    const { frame, slider, button, player, h } = lm.ui, rules = lm.chips, graph = data.graph;
    const f = frame(root, "chips"), p = f.picture((w) => 40 + rows(w) * graph.ops.length + 150, "ops on chips");
    p.svg.setAttribute("role", "group"); // its ops are sliders of their own
    const repairs = f.row("repair"), challenge = f.row("challenge"), list = h("ul", { class: "lm-broken" });
    f.live.append(list);
    const chips = data.chips, n = graph.ops.length, links = [4, 8, 16, 32, 64, 128].map((x) => x * 1e9);
    let at = data.found["greedy-careful"].map((c, op) => (op % 4 ? c : chips - 1 - c)), seed = 1, // it opens broken
      best = null, held = null;
    let scattered = null, told = "", moved = 0, last = -1, open = false; // the broken candidate, what FIX left of it, the reader's moves
    const link = slider(f.bar, { name: "link", label: "link speed", values: links, value: data.link_bytes_per_s, show: (v) => `${v / 1e9} GB/s`, change: settle });
    const memories = [2, 3, 4, 5, 6, 8, 64];
    const memory = slider(f.bar, { name: "memory", label: "memory of a chip", values: memories, value: 64, show: (v) => `${v} MiB`, change: settle });
    const random = () => { const next = lm.schedule.uniform(seed++); for (let i = 0; i < 3; i++) next(); return next; };
    const shuffled = (next) => { const order = graph.ops.map((_, i) => i); for (let i = n - 1; i > 0; i--) { const j = Math.floor(next() * (i + 1)); [order[i], order[j]] = [order[j], order[i]]; } return order; };
    button(repairs, "scatter", () => { const next = random(); do { at = graph.ops.map(() => Math.floor(next() * chips)); } while (!broken(at).length); scattered = at.slice(); told = ""; settle(); }, { "data-scatter": true });
    button(repairs, "repair by FIX", () => { if (broken(at).length) scattered = at.slice(); repair(at); }, { "data-repair": "fix" });
    const again = button(repairs, "repair the same again", () => { if (scattered) repair(scattered); }, { "data-repair": "again" });
    button(repairs, "draw one by SAMPLE", () => { const next = random(); at = rules.sampleRepair(new rules.Solver(graph, chips), shuffled(next), next); told = ""; settle(); }, { "data-repair": "sample" });
    player(repairs, "random search", () => {
      const next = random(), tried = rules.sampleRepair(new rules.Solver(graph, chips), shuffled(next), next), cost = (x) => rules.runtime(graph, x, chips, link.value);
      if (broken(at).length || (!broken(tried).length && cost(tried) < cost(at))) at = tried;
      told = "";
      settle();
      return true;
    }, 120);
    button(challenge, "start again", () => { at = graph.ops.map(() => 0); told = ""; moved = 0; last = -1; open = false; settle(); }, { "data-start": true });
    const ask = button(challenge, "show the answers", () => { open = true; draw(); }, { "data-answers": true });
    const answers = [["the policy's", "policy", () => data.found.zeroshot], ["the careful greedy's", "greedy", () => data.found["greedy-careful"]], ["the optimum", "optimum", () => best || at]]
      .map(([words, name, found]) => button(challenge, words, () => { at = found().slice(); told = ""; settle(); }, { "data-show": name }));

    // What FIX makes of a candidate by the next numbers drawn.
    function repaired(candidate) {
      const next = random();
      return rules.fixRepair(new rules.Solver(graph, chips), shuffled(next), candidate, next);
    }
    function repair(candidate) {
      at = repaired(candidate);
      told = `FIX left ${at.filter((c, op) => c === candidate[op]).length} of ${n} operations where they were. `;
      settle();
    }

    // One move, however far and in however many steps an op goes.
    function move(op, chip) {
      if (chip === at[op]) return;
      if (op !== last) moved += 1;
      last = op;
      told = "";
      at[op] = chip;
      draw();
    }

    function rows(w) { return w < 520 ? 30 : 26; }
    const sram = () => memory.value * 2 ** 20;
    const broken = (x) => rules.violations(graph, x, chips, sram());
    const throughput = (x) => 1 / rules.runtime(graph, x, chips, link.value);

    function settle() { best = rules.optimum(graph, chips, link.value, sram()); draw(); }

    function draw() {
      const { width } = p.clear(), row = rows(width), left = width < 520 ? 92 : 130, lane = (width - left - 4) / chips, faults = broken(at);
      const ordered = !faults.some((x) => x.rule === "acyclic"), culprits = new Set(faults.flatMap((x) => x.ops));
      const loads = rules.latencies(graph, at, chips, link.value), bytes = rules.memory(graph, at, chips), bottom = 34 + row * n;
      for (let c = 0; c < chips; c++) {
        p.add("rect", { x: left + c * lane + 2, y: 22, width: lane - 4, height: row * n + 8, class: "lm-room" });
        p.text(left + (c + 0.5) * lane, 15, `chip ${c}`, { "text-anchor": "middle", class: "lm-strong" });
      }
      const x = (op) => left + (at[op] + 0.5) * lane, y = (op) => 26 + row * (place[op] + 0.5);
      for (const [u, v] of graph.op_edges) {
        const bad = faults.some((fault) => fault.ops[0] === u && fault.ops[1] === v);
        p.add("path", { d: `M${x(u)} ${y(u)}C${x(u)} ${y(u) + row / 2} ${x(v)} ${y(v) - row / 2} ${x(v)} ${y(v)}`, class: bad ? "lm-edge lm-edge-bad" : "lm-edge" });
      }
      graph.ops.forEach((name, op) => {
        p.text(left - 8, y(op) + 4, name.length > 14 ? `${name.slice(0, 13)}…` : name, { "text-anchor": "end" });
        const node = p.add("g", { class: culprits.has(op) ? "lm-op lm-op-bad" : "lm-op", tabindex: 0, role: "slider", "data-op": op, "aria-label": `${name}, ${(graph.seconds[op] * 1e6).toFixed(1)} µs`, "aria-valuemin": 0, "aria-valuemax": chips - 1, "aria-valuenow": at[op], "aria-valuetext": `chip ${at[op]}` });
        node.append(lm.ui.s("rect", { x: x(op) - 24, y: y(op) - row / 2 + 2, width: 48, height: row - 4, rx: 5 }), lm.ui.s("text", { x: x(op), y: y(op) + 4, "text-anchor": "middle", class: "lm-on-node" }, (graph.seconds[op] * 1e6).toFixed(1)));
        node.addEventListener("pointerdown", (event) => { held = { op, left, lane }; last = -1; event.preventDefault(); p.svg.setPointerCapture(event.pointerId); });
      });
      if (faults.length) {
        const ghost = repaired(at);
        seed -= 1; // the button draws the same
        at.forEach((c, op) => { if (ghost[op] !== c) p.add("rect", { x: left + (ghost[op] + 0.5) * lane - 24, y: y(op) - row / 2 + 2, width: 48, height: row - 4, rx: 5, class: "lm-ghost lm-ghost-2", "data-ghost": op }); });
      }
      const most = Math.max(...loads.filter((v) => v > 0), 1e-12);
      p.text(left - 8, bottom + 40, "µs a result", { "text-anchor": "end" });
      p.text(left - 8, bottom + 112, "MiB", { "text-anchor": "end" });
      loads.forEach((s, c) => {
        const tall = ordered ? (52 * Math.max(s, 0)) / most : 0;
        p.add("rect", { x: left + c * lane + 8, y: bottom + 70 - tall, width: lane - 16, height: tall, class: s === most ? "lm-bar-mine" : "lm-bar-fill" });
        p.text(left + (c + 0.5) * lane, bottom + 84, ordered ? (s * 1e6).toFixed(1) : "–", { "text-anchor": "middle" });
        const share = Math.min(1, bytes[c] / sram());
        p.add("rect", { x: left + c * lane + 8, y: bottom + 98, width: lane - 16, height: 18, class: "lm-outline" });
        p.add("rect", { x: left + c * lane + 8, y: bottom + 98, width: (lane - 16) * share, height: 18, class: bytes[c] > sram() ? "lm-bar-over" : "lm-bar-bound" });
        p.text(left + (c + 0.5) * lane, bottom + 132, (bytes[c] / 2 ** 20).toFixed(2), { "text-anchor": "middle" });
      });
      list.replaceChildren(...faults.slice(0, 5).map((x) => h("li", { "data-rule": x.rule }, x.text)));
      const policy = data.found.zeroshot, beats = broken(policy).length ? null : throughput(policy), top = best ? throughput(best) : null;
      again.setAttribute("aria-disabled", !scattered);
      if (top !== null && !faults.length && throughput(at) > top * 0.999999) open = true;
      for (const made of answers) made.hidden = !open;
      if (open && document.activeElement === ask) answers[0].focus();
      ask.hidden = open;
      const steps = `${moved} move${moved === 1 ? "" : "s"}`;
      const others = `${beats === null ? "The policy's partition does not fit the memory" : `The policy's best of ${data.samples} reaches ${beats.toFixed(0)}`}; ${top === null ? "no partition fits" : `the optimum ${top.toFixed(0)}, on ${new Set(best).size} of the chips`}.`;
      if (faults.length) f.say(`${faults.length} broken: ${faults[0].text}. ${steps}. ${others}`);
      else {
        const mine = throughput(at), won = beats !== null && mine > beats * 1.000001, done = top !== null && mine > top * 0.999999;
        f.say(`${told}Valid. ${mine.toFixed(0)} results per second after ${steps}. ${done ? "This is the optimum. " : won ? "More than the policy's. " : ""}${others}`);
      }
      f.write({ at: at.join(""), link: link.value / 1e9, memory: memory.value });
    }

    const place = graph.ops.map(() => 0);
    graph.order.forEach((op, i) => { place[op] = i; });
    p.svg.style.touchAction = "pan-y";
    p.svg.addEventListener("pointermove", (event) => {
      if (!held) return;
      const box = p.svg.getBoundingClientRect(), scale = p.svg.viewBox.baseVal.width / box.width;
      const chip = Math.max(0, Math.min(chips - 1, Math.floor(((event.clientX - box.left) * scale - held.left) / held.lane)));
      move(held.op, chip);
    });
    for (const kind of ["pointerup", "pointercancel"]) p.svg.addEventListener(kind, () => { if (held) { held = null; draw(); } });
    p.svg.addEventListener("keydown", (event) => {
      const op = event.target.dataset && event.target.dataset.op;
      const next = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -chips, End: chips }[event.key];
      if (op === undefined || next === undefined) return;
      event.preventDefault();
      move(Number(op), Math.max(0, Math.min(chips - 1, at[op] + next)));
      p.svg.querySelector(`[data-op="${op}"]`).focus();
    });
    const known = f.read();
    if (known.at && known.at.length === n && /^\d+$/.test(known.at)) at = [...known.at].map((c) => Math.min(chips - 1, Number(c)));
    if (known.link) link.set(Number(known.link) * 1e9);
    if (known.memory) memory.set(Number(known.memory));
    settle();
    f.onresize(draw);
  };
})((globalThis.lm = globalThis.lm || {}));
