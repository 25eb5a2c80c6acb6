// A dot per claim: the paper's number and ours on one axis, with interval and thresholds.
"use strict";
(function (lm) {
  const KINDS = ["reproduced", "same direction", "undecided", "not reproduced", "not yet run", "not testable here"];

  lm.explorables.claims = function (root, data) {
    const { frame, slider, select, player, h } = lm.ui, f = frame(root, "claims"), detail = h("div", { class: "lm-detail" });
    let rows = data.claims, at = 0;
    const p = f.picture(() => 66 + 15 * rows.length, "claims on one axis");
    f.live.append(detail);
    const paper = select(f.bar, "paper", [["0", "all three"], ["1", "memory mapping"], ["2", "chips"], ["3", "scheduling"]], filter);
    const verdict = select(f.bar, "verdict", [["", "all"], ...KINDS.map((k) => [k, k])], filter);
    const where = slider(f.bar, { name: "claim", label: "claim", min: 1, max: rows.length, value: 1, change: (v) => { at = v - 1; draw(); } });
    player(f.bar, "walk", () => { if (at + 1 >= rows.length) return false; at += 1; draw(); return at + 1 < rows.length; }, 1500);

    function filter() {
      rows = data.claims.filter((c) => (paper.value === "0" || String(c.paper) === paper.value) && (!verdict.value || c.verdict === verdict.value));
      at = 0;
      where.limit(Math.max(1, rows.length));
      draw();
    }

    // The axis: 0 where the claim starts to point its own way, 1 where it counts as reproduced.
    function axis(c) {
      const [low, high] = c.reproduced, [least, most] = c.same;
      const below = low === null || (low === least && high !== null && most !== null); // reproduced is what is small
      const zero = below ? most : least, one = below ? high : low;
      if (one === null || zero === null) return null;
      if (zero !== one) return (v) => (v - zero) / (one - zero);
      const sign = below ? -1 : 1, scale = Math.abs(one) || 1; // nothing lies between
      return (v) => (sign * (v - one) >= 0 ? 1 : -0.1) + (sign * (v - one)) / scale;
    }

    function draw() {
      where.set(Math.min(at + 1, rows.length));
      const { width } = p.clear(`${rows.length} claims`), wide = width >= 600, size = wide ? 12 : 10, left = 14 + 0.59 * size * Math.max(...data.claims.map((c) => c.id.split(".")[1].length)), w = width - left - 14, x = (v) => left + (w * (Math.max(-1.5, Math.min(3, v)) + 1.5)) / 4.5, bottom = 44 + 15 * rows.length;
      p.add("rect", { x: x(1), y: 26, width: x(3) - x(1), height: bottom - 26, class: "lm-good" });
      for (const [v, words, anchor] of [[0, "points the same way →", wide ? "middle" : "end"], [1, "reproduced from here →", "start"]]) {
        p.add("line", { x1: x(v), x2: x(v), y1: 22, y2: bottom, class: "lm-now" });
        p.text(x(v), 15, wide ? words : words.replace("points ", "").replace(" from here", ""), { "text-anchor": anchor, "font-size": size });
      }
      p.text(14, bottom + 16, "● the paper's method   ○ the best without learning   ◆ the paper's number", { "font-size": size });
      rows.forEach((c, i) => {
        const y = 34 + 15 * i, map = axis(c), g = p.add("g", { class: i === at ? "lm-claim lm-claim-on" : "lm-claim", "data-claim": c.id });
        const put = (tag, more) => g.append(lm.ui.s(tag, more));
        put("rect", { x: 0, y: y - 7, width, height: 15, class: "lm-claim-row" });
        const words = (at, text, more) => g.append(lm.ui.s("text", { x: at, y: y + 4, "font-size": size, ...more }, text));
        words(left - 6, c.id.split(".")[1].replaceAll("-", " "), { "text-anchor": "end" });
        if (map) {
          if (c.printed !== null) put("path", { d: `M${x(map(c.printed))} ${y - 5}l5 5l-5 5l-5 -5z`, class: "lm-diamond" });
          if (c.rival) put("circle", { cx: x(map(c.rival[0])), cy: y, r: 4, class: "lm-hollow" });
          if (c.measured) {
            put("line", { x1: x(map(c.measured[1])), x2: x(map(c.measured[2])), y1: y, y2: y, class: "lm-interval-line" });
            put("circle", { cx: x(map(c.measured[0])), cy: y, r: 5, class: `lm-verdict-${KINDS.indexOf(c.verdict)}` });
          }
        }
        if (map && c.printed === null) g.append(lm.ui.s("title", {}, `No diamond: ${c.unprinted}.`));
        if (c.measured && c.printed === null) { // on the side where nothing is drawn
          const right = map && Math.min(...c.measured.map(map)) < -0.6;
          words(x(right ? 2.95 : -1.45), "no number", { class: "lm-undecided", "text-anchor": right ? "end" : "start" });
        }
        if (!c.measured) words(x(-1.45), c.verdict.replace(" here", ""), { class: "lm-undecided" });
      });
      const c = rows[at];
      detail.replaceChildren();
      if (!c) { f.say("No claim has this verdict."); return; }
      const show = (m) => (m ? `${Number(m[0].toPrecision(4))}${m[1] === m[2] ? "" : ` [${Number(m[1].toPrecision(4))}, ${Number(m[2].toPrecision(4))}]`}` : "–");
      detail.append(
        h("p", {}, h("strong", {}, c.text)),
        h("p", {}, `The paper: ${c.number}. ${c.printed === null ? `No diamond: ${c.unprinted}.` : `In the unit of the measure: ${Number(c.printed.toPrecision(4))}.`}`),
        h("p", {}, `Measured: ${show(c.measured)}.${c.rival ? ` Without learning, ${c.rival_method}: ${show(c.rival)}.` : ""} `, h("a", { href: c.link, "data-table": c.artifact }, `See ${c.artifact}`)),
      );
      f.say(`Claim ${at + 1} of ${rows.length}: ${c.verdict}.`);
      f.write({ claim: c.id });
    }

    p.svg.addEventListener("click", (event) => {
      const box = p.svg.getBoundingClientRect(), y = ((event.clientY - box.top) * p.svg.viewBox.baseVal.height) / box.height;
      at = Math.max(0, Math.min(rows.length - 1, Math.round((y - 34) / 15)));
      draw();
    });
    const link = f.read();
    if (link.claim) at = Math.max(0, rows.findIndex((c) => c.id === link.claim));
    draw();
    f.onresize(draw);
  };
})((globalThis.lm = globalThis.lm || {}));
