// Which op gets which credit: arrows push ops to a later or an earlier chip, by flow or by exact; a click moves one.
"use strict";
(function (lm) {
  const { flow, exact, moved, allowed } = lm.chips.credits;
  const kinds = { sample: (graph) => graph.seconds.map(() => [0, 0]), flow, exact };

  lm.explorables.credits = function (root, data) {
    const LEAST = 0.01; // a smaller push draws no arrow
    const { frame, select, button, s } = lm.ui, graph = data.graph, chips = data.chips, link = data.link_bytes_per_s, n = graph.ops.length;
    const f = frame(root, "credits"), p = f.picture((w) => 40 + (w < 520 ? 30 : 26) * n + 96, "credits of ops"), place = [];
    let at = data.begin.slice(), kind = "flow";
    graph.order.forEach((op, i) => { place[op] = i; });
    p.svg.setAttribute("role", "group");
    const menu = select(f.bar, "credit", [["flow", "flow, for each op"], ["exact", "exact, for each op"], ["sample", "one for the sample"]], (value) => { kind = value; draw(); });
    button(f.bar, "follow the largest", () => { const best = largest(); if (best) at = moved(at, ...best); draw(); }, { "data-do": "follow" });
    button(f.bar, "begin anew", () => { at = data.begin.slice(); draw(); });
    const throughput = (x) => 1 / lm.chips.runtime(graph, x, chips, link);

    function largest() {
      let best = null, most = LEAST;
      kinds[kind](graph, at, chips, link).forEach((pair, op) => pair.forEach((g, i) => { if (g > most && allowed(graph, at, op, 2 * i - 1, chips)) { most = g; best = [op, 2 * i - 1]; } }));
      return best;
    }

    function draw() {
      const { width } = p.clear(), row = width < 520 ? 30 : 26, left = width < 520 ? 92 : 130, lane = (width - left - 4) / chips, bottom = 34 + row * n;
      const gains = kinds[kind](graph, at, chips, link), loads = lm.chips.latencies(graph, at, chips, link), most = Math.max(...loads);
      for (let c = 0; c < chips; c++) {
        p.add("rect", { x: left + c * lane + 2, y: 22, width: lane - 4, height: row * n + 8, class: "lm-room" });
        p.text(left + (c + 0.5) * lane, 15, `chip ${c}`, { "text-anchor": "middle", class: "lm-strong" });
        const tall = (52 * loads[c]) / most;
        p.add("rect", { x: left + c * lane + 8, y: bottom + 70 - tall, width: lane - 16, height: tall, class: loads[c] === most ? "lm-bar-mine" : "lm-bar-fill" });
        p.text(left + (c + 0.5) * lane, bottom + 84, (loads[c] * 1e6).toFixed(1), { "text-anchor": "middle" });
      }
      p.text(left - 8, bottom + 40, "µs a result", { "text-anchor": "end" });
      graph.ops.forEach((name, op) => {
        const [down, up] = gains[op], push = Math.max(up, down, 0) * (up >= down ? 1 : -1), side = push > 0 ? 1 : -1; // no arrow where both lose
        const able = Math.abs(push) > LEAST && allowed(graph, at, op, side, chips);
        const x = left + (at[op] + 0.5) * lane, y = 26 + row * (place[op] + 0.5), reach = Math.min(lane / 2, 18 + (lane / 2) * Math.min(Math.abs(push), 1));
        p.text(left - 8, y + 4, name.length > 14 ? `${name.slice(0, 13)}…` : name, { "text-anchor": "end" });
        if (Math.abs(push) > LEAST) p.add("path", { d: `M${x} ${y}H${x + side * reach}m${-side * 6} -5l${side * 6} 5l${-side * 6} 5`, class: able ? "lm-edge lm-edge-bad" : "lm-edge", fill: "none" });
        const words = able ? `moves to chip ${at[op] + side}` : "stays";
        const node = p.add("g", { class: "lm-op", tabindex: 0, role: "button", "data-op": op, "data-push": push.toFixed(4), "aria-label": `${name}, chip ${at[op]}, push ${push.toFixed(2)}: ${words}` });
        node.append(s("circle", { cx: x, cy: y, r: row / 2 - 4 }));
        const act = () => { if (able) { at = moved(at, op, side); draw(); p.svg.querySelector(`[data-op="${op}"]`).focus(); } };
        node.addEventListener("click", act);
        node.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } });
      });
      const share = (100 * throughput(at)) / throughput(data.found.optimum), end = kind === "sample" ? "One credit says that the sample was good or bad, and pushes no op anywhere." : largest() ? "Click an op with a bold arrow, or follow the largest." : "No credit is left that the rules allow.";
      f.say(`${throughput(at).toFixed(0)} results per second, ${share.toFixed(0)} % of the optimum. ${end}`);
      f.write({ at: at.join(""), kind });
    }

    const known = f.read();
    if (known.at && known.at.length === n && /^\d+$/.test(known.at)) at = [...known.at].map((c) => Math.min(chips - 1, Number(c)));
    if (kinds[known.kind]) { kind = known.kind; menu.value = kind; }
    for (let best, left = Number(known.follow) || 0; left > 0 && (best = largest()); left--) at = moved(at, ...best);
    draw();
    f.onresize(draw);
  };
})((globalThis.lm = globalThis.lm || {}));
