// A claim that can be questioned: its evidence instance by instance, and its verdict by the one rule, computed here. What a
// reader changes is in the address, and the address draws the page: the browser's Back takes an act back.
"use strict";
(function (lm) {
  const FIRST = "mmap.mean-speedup", WORDS = { difference: "less", ratio: "over", gap: "over", share_better: "ahead of" };
  const OF = { min: "the least of", max: "the largest of", geomean: "geometric mean of", sum: "sum of", mean: "mean of" };

  function digits(value, signed) {
    const size = Math.abs(value), text = size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value && size < 0.0995 ? value.toPrecision(2) : value.toFixed(3);
    return (signed && value > 0 ? `+${text}` : text).replace("-", "−");
  }
  const tick = (value) => digits(value).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  const interval = (m, signed) => digits(m[0], signed) + (m[1] === m[2] ? "" : ` [${digits(m[1], signed)}, ${digits(m[2], signed)}]`);
  const short = (name, room) => (name.length * 7 > room ? `${name.slice(0, Math.max(3, Math.floor(room / 7) - 1))}…` : name);
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  function ticks(low, high, log, most) {
    if (log) return [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50].filter((t) => t >= low && t <= high);
    let step = 10 ** Math.floor(Math.log10((high - low) / most));
    step *= [1, 2, 5, 10].find((k) => (high - low) / (step * k) <= most);
    return Array.from({ length: Math.floor(high / step + 1e-9) - Math.ceil(low / step - 1e-9) + 1 }, (_, i) => (Math.ceil(low / step - 1e-9) + i) * step);
  }

  lm.explorables.claims = function (root, data) {
    const R = lm.claimRules, { frame, slider, button, select, h, s } = lm.ui, f = frame(root, "claims");
    const claims = new Map(data.claims.map((c) => [c.id, c])), kept = new Map(), kind = (verdict) => R.KINDS.indexOf(verdict);
    let at = null, c = null, rows = [], picked = "", tall = 300;
    const p = f.picture(() => tall, "the evidence"), part = (tag, name, more) => h(tag, { class: `lm-claim-${name}`, ...more });
    const ribbon = part("nav", "ribbon", { "aria-label": "all claims" }), where = part("p", "where"), text = part("p", "text", { role: "heading", "aria-level": 2 });
    const paper = part("p", "paper"), verdict = part("div", "verdict"), key = part("p", "key"), detail = part("p", "detail"), families = part("div", "families"), asked = part("ul", "asked"), rule = part("p", "rule");
    f.live.prepend(ribbon, where, text, paper, verdict);
    f.box.after(key, families, detail, asked, rule);
    f.live.querySelector(".lm-words").classList.add("lm-claim-said");

    const rowsFor = (claim) => {
      if (claim.rule && !kept.has(claim.artifact)) kept.set(claim.artifact, R.rowsOf(data, claim.artifact));
      return kept.get(claim.artifact) || [];
    };
    const plain = (method) => data.plain[c.paper].includes(String(method).replace(/-prod$/, ""));
    const mark = (method) => (plain(method) ? `${method} ○` : method);

    // The state in the address; what is missing is the claim's own.
    function read() {
      const [id, query] = location.hash.slice(1).split("?"), cells = new URLSearchParams(query || ""), line = cells.has("line") ? Number(cells.get("line")) : null;
      return {
        id: claims.has(id) ? id : FIRST, arm: cells.get("arm") || "", rival: cells.get("rival") || "", by: cells.get("by") || "",
        without: new Set((cells.get("without") || "").split(",").filter(Boolean)), training: Number(cells.get("training")) || 0, line: Number.isFinite(line) ? line : null,
      };
    }
    function address(state) {
      const cells = ["arm", "rival", "by", "training"].filter((name) => state[name]).map((name) => `${name}=${encodeURIComponent(state[name])}`);
      if (state.without.size) cells.push(`without=${[...state.without].map(encodeURIComponent).join(",")}`);
      if (state.line !== null) cells.push(`line=${state.line}`);
      return `#${state.id}${cells.length ? `?${cells.join("&")}` : ""}`;
    }
    const go = (change) => { location.hash = address({ ...at, ...change }); };
    const opening = () => ({ id: c.id, arm: "", rival: "", by: "", without: new Set(), training: 0, line: null });
    function toggled(name) {
      const without = new Set(at.without);
      if (!without.delete(name)) without.add(name);
      return { without };
    }

    // The ribbon: a square for each claim, a row for each paper. One of them takes the keyboard; the arrows move along.
    for (const [number, name] of Object.entries(data.papers)) {
      const own = data.claims.filter((claim) => String(claim.paper) === number);
      ribbon.append(h("span", { class: "lm-claim-group" }, h("b", {}, name.split(" ")[0]), own.map((claim) => h("a", { href: `#${claim.id}`, "data-claim": claim.id, class: `lm-square lm-kind-${kind(claim.verdict)}`, title: `${claim.text} ${claim.verdict}`, "aria-label": `${claim.text} ${claim.verdict}` }))));
    }
    ribbon.append(h("span", { class: "lm-claim-legend" }, R.KINDS.map((name) => [name, data.claims.filter((claim) => claim.verdict === name).length]).filter(([, count]) => count).map(([name, count]) => h("span", { title: data.meaning[name] }, h("i", { class: `lm-pip lm-kind-${kind(name)}` }), ` ${name} ${count}`))));
    ribbon.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key], squares = [...ribbon.querySelectorAll("a")];
      if (!step) return;
      event.preventDefault();
      const next = squares[(squares.findIndex((a) => a.dataset.claim === c.id) + step + squares.length) % squares.length];
      next.focus();
      location.hash = next.getAttribute("href");
    });

    // Methods that can stand in the arm's or the rival's place: with rows on two instances, or on as many as there are.
    function choices(place, now) {
      const own = place === "rival" && !now.rule.against.method ? "baseline" : "method", names = new Set(rows.map((row) => row[own]).filter(Boolean));
      const size = R.pairs(R.changed(c.rule, {}), rows).length;
      return [...names].filter((name) => R.pairs(R.changed(c.rule, { ...at, by: "", [place]: name }), rows).length >= Math.min(size, 2)).filter((name) => name !== now.rule[place === "rival" ? "rows" : "against"].method);
    }

    function draw() {
      const before = at && at.id;
      at = read();
      c = claims.get(at.id);
      rows = rowsFor(c);
      if (before !== at.id) picked = "";
      const base = R.answer(data, c, rows, {}), now = R.answer(data, c, rows, at), untouched = R.same(at), signed = c.rule && c.rule.kind === "difference";
      for (const a of ribbon.querySelectorAll("a")) {
        const here = a.dataset.claim === c.id;
        a.tabIndex = here ? 0 : -1;
        if (here) a.setAttribute("aria-current", "true");
        else a.removeAttribute("aria-current");
      }
      const order = data.claims.indexOf(c), near = (step) => `#${data.claims[(order + step + data.claims.length) % data.claims.length].id}`;
      where.replaceChildren(h("a", { href: near(-1), "aria-label": "the claim before" }, "←"), `Claim ${order + 1} of ${data.claims.length}`, h("a", { href: near(1), "aria-label": "the next claim" }, "→"), h("a", { href: c.link }, `table ${c.artifact}`));
      text.textContent = c.text;
      paper.replaceChildren(h("b", {}, "The paper: "), `${c.number.replace(/\.$/, "")}.`, c.decided_by ? h("span", { class: "lm-claim-standin" }, ` Here decided by ${c.decided_by}.`) : "");
      for (const box of [f.bar, key, families, detail, asked, rule]) box.replaceChildren();
      tall = 4;
      const arm = now.rule && now.rule.rows.method, against = now.rule && (now.rule.against.method || now.rule.rows.baseline);
      const all = now.rule ? R.pairs(now.rule, rows) : [], counting = now.rule ? new Set(R.pairs(now.rule, R.countingRows(now.rule, rows, data.learners)).map((pair) => pair[0])) : new Set();
      const used = now.rule ? R.pairs(now.rule, now.rows).map((pair) => pair[0]) : [];
      const best = now.measured && c.rival && !at.by && !(at.rival && plain(at.rival)) ? R.strongest(data, c, now) : null; // a rival that is such a method leaves none to ask of
      judged(now, base, untouched, signed, { arm, against, used, best });
      if (!c.rule) { p.clear(c.verdict); return; }
      knobs(now, base);
      picture(now, base, best, { all, counting, used, arm, against, signed });
      questions(now, best, { used, arm, against, signed });
      const bound = ([low, high]) => (low === null ? `up to ${digits(high)}` : high === null ? `from ${digits(low)}` : `${digits(low)} to ${digits(high)}`);
      rule.append(`Reproduced: the whole interval is ${bound(R.lined(c, at.line).reproduced)}. Same direction: ${bound(c.same)}. Undecided: it lies on both sides.`);
    }

    function judged(now, base, untouched, signed, { arm, against, used, best }) {
      const of = c.rule && `${arm || ""}${against ? ` ${WORDS[c.rule.kind] || "against"} ${against}` : ""}${used.length > 1 ? `, ${c.rule.kind === "gap" ? "mean gaps of" : OF[c.rule.over]} ${used.length}` : ""}${at.by ? `, after equal ${at.by}` : ""}`;
      const learns = now.measured && best && !plain(arm), lead = learns ? R.lead(now, best.method) : null;
      verdict.replaceChildren(
        h("span", { class: `lm-chip lm-kind-${kind(now.verdict)}`, title: data.meaning[now.verdict] }, h("b", {}, now.verdict + (untouched ? "" : ", by the same rule"))),
        h("span", { class: "lm-claim-number" }, now.measured ? interval(now.measured, signed) : ""),
        h("span", { class: "lm-claim-of" }, now.measured ? `${c.rule.kind === "share_better" ? "of the instances" : c.unit}: ${of}` : c.not_testable || "There are no rows of these two."),
        h("span", { class: "lm-claim-adds" }, lead ? ["Does learning add to ", h("code", {}, best.method), ", which learns nothing? ", h("b", {}, { yes: "Yes", no: "No" }[R.adds(c, lead)] || "Undecided"), `: ${arm} ${WORDS[c.rule.kind] || WORDS.difference} ${best.method} is ${interval(lead, c.rule.kind === "value" || signed)}.`] : c.undecided && untouched ? `Undecided whatever the number: ${c.undecided}.` : ""),
        c.few && untouched ? h("span", { class: "lm-claim-adds" }, `Few dots: ${c.few}.`) : "",
        untouched ? "" : h("span", { class: "lm-claim-back" }, `As published: ${base.verdict}${base.measured ? `, ${interval(base.measured, signed)}` : ""}. `, h("a", { href: `#${c.id}` }, "Back to it")),
      );
      f.say(`${c.text} ${now.verdict}${now.measured ? `, ${interval(now.measured, signed)}` : ""}${untouched ? "" : ", by the same rule"}.`);
    }

    function knobs(now, base) {
      const menu = (label, name, options, own) => {
        if (options.length < 2) return;
        const made = select(f.bar, label, options, (value) => go({ [name]: value === own ? "" : value }));
        made.value = at[name] || own;
        made.dataset.name = name;
      };
      const named = (names) => names.map((name) => [name, mark(name)]), own = c.rule;
      if (own.rows.method) menu("method", "arm", named(choices("arm", now)), own.rows.method);
      if (own.against.method || own.rows.baseline) menu("against", "rival", named(choices("rival", now)), own.against.method || own.rows.baseline);
      const equal = ["games", "moves"].filter((by) => R.pairs(R.changed(c.rule, { ...at, by }), rows).length);
      if (equal.length) menu("after equal", "by", [["time", "time"], ...equal.map((by) => [by, by])], "time");
      const trainings = Math.max(0, ...R.pairs(now.rule, rows).flatMap((pair) => pair.slice(1).map((entry) => entry.row.by_training?.length || 0)));
      if (trainings > 1) menu("trainings", "training", [["0", `all ${trainings}`], ...Array.from({ length: trainings }, (_, k) => [String(k + 1), `number ${k + 1} alone`])], "0");
      const line = c.reproduced[c.falls ? 1 : 0], ends = [line, c.printed, ...c.same, ...(base.measured || [])].filter((v) => v !== null && v !== undefined), low = Math.min(...ends), high = Math.max(...ends), pad = 0.15 * (high - low || Math.abs(high) || 1);
      const stops = [...new Set([...Array.from({ length: 41 }, (_, i) => Number((low - pad + ((high - low + 2 * pad) * i) / 40).toPrecision(3))), line, at.line ?? line])].sort((a, b) => a - b);
      slider(f.bar, { name: "line", label: "reproduced", values: stops, value: at.line ?? line, show: (v) => `${c.falls ? "up to" : "from"} ${digits(v)}`, change: (v) => go({ line: v === line ? null : v }) });
      if (at.without.size) button(f.bar, `take ${at.without.size === 1 ? "it" : `all ${at.without.size}`} back in`, () => go({ without: new Set() }));
    }

    // One picture: on top the verdict's number on its axis; below it a dot for each instance, on the same axis where both have one
    // unit, gap against gap where the number is a quotient of gaps, and the methods where there is but one instance.
    function picture(now, base, best, { all, counting, used, arm, against, signed }) {
      const width = Math.max(280, Math.min(720, Math.floor(f.box.clientWidth || 640))), wide = width >= 560, single = all.length < 2, scatter = now.rule.kind === "gap" && !single, share = now.rule.kind === "share_better" && !single;
      const of = { ...R.CONTRASTS, share_better: (a, b) => a / b }[now.rule.kind], there = new Set(used), theirs = best ? new Map(R.pairs(best.rule, rows).map((pair) => [pair[0], pair])) : new Map();
      const between = (pair) => {
        const [a, b] = pair.slice(1), ends = b ? [of(a.low, b.low), of(a.low, b.high), of(a.high, b.low), of(a.high, b.high)] : [a.low, a.high];
        return [of(a.value, b && b.value), Math.min(...ends), Math.max(...ends)];
      };
      const runs = (pair) => pair.slice(1).filter(Boolean).map((entry) => entry.row.n ?? 1).join(", ");
      let lines = all.map((pair) => ({ name: pair[0], pair, m: between(pair), on: there.has(pair[0]), short: !counting.has(pair[0]), n: runs(pair), ring: theirs.has(pair[0]) ? between(theirs.get(pair[0]))[0] : null }));
      if (single) {
        lines = choices("arm", now).map((name) => [name, R.changed(now.rule, { arm: name })]).map(([name, its]) => ({ name, m: R.measure(its, rows), on: name === arm, n: R.pairs(its, rows).map(runs)[0], plain: plain(name), each: R.pairs(its, rows).flatMap(([, a, b]) => (a.row.values || []).map((v) => of(v, b && b.value))) })).filter((line) => line.m);
        if (!lines.length) lines = now.measured ? [{ name: arm || "measured", m: now.measured, on: true, n: "" }] : [];
      }
      lines.sort((a, b) => (a.m[0] - b.m[0]) * (c.falls ? 1 : -1));
      const dense = !scatter && lines.length > 20, step = dense ? Math.max(3.4, 260 / lines.length) : lines.length > 12 ? 16 : 18, left = wide ? (dense || scatter ? 150 : 206) : 108, right = width - (dense || scatter ? 16 : 62), top = best ? 70 : 50;
      const corner = wide ? left : 34, square = Math.min(right - corner, wide ? 200 : 290);
      tall = top + (scatter ? square + 40 : lines.length * step + (share ? 40 : 24));
      p.clear(`${lines.length} ${single ? "methods" : "instances"} of ${c.text}`);
      p.svg.setAttribute("tabindex", "0");
      const words = (x, y, said, more) => p.add("text", { x, y, ...more }, said);
      // the verdict's axis
      const lined = R.lined(c, at.line), edges = [...lined.reproduced, ...c.same].filter((v) => v !== null), marks = [...edges, c.printed, ...(now.measured || []), ...(base.measured || []), ...(best ? best.measured : [])].filter((v) => v !== null && v !== undefined);
      const values = scatter || share ? marks : [...marks, ...lines.flatMap((line) => [line.m[0], line.ring ?? line.m[0], ...(line.each || [])])], log = now.rule.kind !== "difference" && Math.min(...values) > 0 && Math.max(...values) > 4 * Math.min(...values);
      const on = log ? Math.log : (v) => v, back = log ? Math.exp : (v) => v, low = on(Math.min(...values)), high = on(Math.max(...values)), pad = 0.06 * (high - low || Math.abs(high) || 1);
      const along = (lowest, highest) => (v) => Math.max(left - 6, Math.min(right + 6, left + ((right - left) * (v - lowest)) / (highest - lowest))), place = along(low - pad, high + pad), x = (v) => place(on(v));
      const floor = scatter || share ? top - 12 : tall - 18, band = (ends, name) => {
        const [a, b] = [ends[0] === null ? left - 6 : x(ends[0]), ends[1] === null ? right + 6 : x(ends[1])];
        p.add("rect", { x: a, y: 16, width: Math.max(2, b - a), height: floor - 16, class: name });
      };
      band(c.same, "lm-same");
      band(lined.reproduced, "lm-good");
      const line = lined.reproduced[c.falls ? 1 : 0], begins = c.falls ? x(line) - left > 90 : right - x(line) < 90;
      words(x(line), 11, c.falls ? "← reproduced" : "reproduced →", { "text-anchor": begins ? "end" : "start", class: "lm-small" });
      for (const t of ticks(back(low - pad), back(high + pad), log, wide ? 6 : 4)) words(x(t), floor + 13, tick(t), { "text-anchor": "middle", class: "lm-small" });
      const sum = (m, y, name, ring) => {
        p.add("line", { x1: x(m[1]), x2: x(m[2]), y1: y, y2: y, class: `lm-sum ${name}` });
        p.add(ring ? "circle" : "rect", ring ? { cx: x(m[0]), cy: y, r: 5, class: "lm-hollow" } : { x: x(m[0]) - 5.5, y: y - 5.5, width: 11, height: 11, class: name });
      };
      if (base.measured && !R.same(at)) sum(base.measured, 29, "lm-faint");
      if (now.measured) sum(now.measured, 29, `lm-kind-${kind(now.verdict)}`);
      words(left - 10, 33, single ? "this claim" : `all ${used.length} together`, { "text-anchor": "end", class: "lm-strong" });
      if (best) {
        sum(best.measured, 48, "lm-plain", true);
        words(left - 10, 52, `${short(best.method, left - 26)} ○`, { "text-anchor": "end" });
      }
      if (c.printed !== null) p.add("path", { d: `M${x(c.printed)} 33l5 5.5l-5 5.5l-5 -5.5z`, class: "lm-diamond" }, s("title", {}, `the paper: ${digits(c.printed)}`));
      // the instances, or the methods
      const spots = [];
      if (scatter) {
        const most = Math.max(1, ...lines.flatMap((l) => [l.pair[1].value, l.pair[2].value])), root2 = (v) => Math.sqrt(Math.max(0, v) / most), px = (v) => corner + root2(v) * square, py = (v) => top + 6 + square - root2(v) * square;
        const end = (slope) => (slope > 1 ? [px(most / slope), py(most)] : [px(most), py(most * slope)]), wedge = ([from, to]) => [[px(0), py(0)], end(from ?? 0), ...((from ?? 0) <= 1 && (to === null || to > 1) ? [[px(most), py(most)]] : []), to === null ? [px(0), py(most)] : end(to)].join(" ");
        p.add("polygon", { points: wedge(c.same), class: "lm-same" });
        p.add("polygon", { points: wedge(lined.reproduced), class: "lm-good" });
        p.add("rect", { x: corner, y: top + 6, width: square, height: square, class: "lm-outline" });
        for (const [slope, name] of [[1, "lm-level"], ...(now.measured ? [[now.measured[0], `lm-slope lm-kind-${kind(now.verdict)}`]] : [])]) p.add("path", { d: `M${px(0)} ${py(0)}L${end(slope).join(" ")}`, class: name });
        for (const t of ticks(0, most, false, 4)) {
          words(px(t), top + square + 19, tick(t), { "text-anchor": "middle", class: "lm-small" });
          if (t) words(corner - 5, py(t) + 4, tick(t), { "text-anchor": "end", class: "lm-small" });
        }
        words(corner + square, top + square + 34, `gap of ${against}, percent →`, { "text-anchor": "end", class: "lm-small" });
        words(corner + 6, top + 20, `↑ gap of ${arm}, percent`, { class: "lm-small" });
        for (const l of lines) if (l.on && theirs.has(l.name)) p.add("circle", { cx: px(l.pair[2].value), cy: py(theirs.get(l.name)[1].value), r: 2.5, class: "lm-hollow lm-thin" });
        for (const l of lines) spots.push([l, px(l.pair[2].value), py(l.pair[1].value), p.add("circle", { cx: px(l.pair[2].value), cy: py(l.pair[1].value), r: 3.4, class: `lm-instance${l.on ? "" : " lm-out"}` })]);
      } else {
        let X = x;
        if (share) { // the instances have an axis of their own
          const v = lines.flatMap((l) => [l.m[0], l.ring ?? l.m[0], 1]), room = 0.04 * (Math.max(...v) - Math.min(...v) || 1), [a, b] = [Math.min(...v) - room, Math.max(...v) + room];
          X = along(a, b);
          p.add("line", { x1: X(1), x2: X(1), y1: top + 10, y2: tall - 20, class: "lm-level" });
          words(X(1) + 4, tall - 22, `level with ${against}`, { class: "lm-small" });
          for (const t of ticks(a, b, false, 5)) words(X(t), tall - 5, tick(t), { "text-anchor": "middle", class: "lm-small" });
        } else if (now.rule.kind !== "value") {
          const level = R.LEVEL[now.rule.kind] || 0;
          if (back(low - pad) < level && level < back(high + pad)) p.add("line", { x1: x(level), x2: x(level), y1: 16, y2: floor, class: "lm-level" });
        }
        lines.forEach((l, i) => {
          const y = top + (share ? 12 : 2) + (i + 0.5) * step, g = p.add("g", { "data-name": l.name, class: l.on || single ? "" : "lm-out" }), put = (tag, more, said) => g.append(s(tag, more, said));
          if (!dense) {
            put("text", { x: left - 10, y: y + 4, "text-anchor": "end", class: single && l.on ? "lm-strong" : null }, short(l.name.split("/").pop(), left - (l.plain ? 28 : 14)) + (l.plain ? " ○" : ""));
            put("text", { x: right + 10, y: y + 4, class: l.short ? "lm-small lm-toofew" : "lm-small" }, l.short ? "too few" : l.n ? `n ${l.n}` : "");
          }
          if (l.ring !== null && l.ring !== undefined) put("circle", { cx: X(l.ring), cy: y, r: dense ? 2.3 : 4.6, class: dense ? "lm-hollow lm-thin" : "lm-hollow" });
          if (l.m[1] !== l.m[2] && !share) put("line", { x1: X(l.m[1]), x2: X(l.m[2]), y1: y, y2: y, class: "lm-whisker" });
          for (const v of l.each || []) put("circle", { cx: X(v), cy: y, r: 2.4, class: "lm-run" });
          put("circle", { cx: X(l.m[0]), cy: y, r: dense ? 2.6 : 4.4, class: l.plain ? "lm-hollow" : single && !l.on ? "lm-other" : "lm-instance" });
          spots.push([l, X(l.m[0]), y, g]);
        });
      }
      const entry = (name, said) => h("span", {}, h("i", { class: name }), ` ${said}`);
      key.replaceChildren(
        entry(`lm-key-sum lm-kind-${kind(now.verdict)}`, single ? "the claim, 95% interval" : "all together, 95% interval"),
        single ? (lines.some((l) => l.each && l.each.length) ? entry("lm-key-run", "one run") : "") : entry("lm-key-dot", scatter ? `${arm} against ${against} on one graph` : share ? `${arm}, in ${against}'s` : "one instance"),
        best ? entry("lm-key-ring", `${best.method}: the strongest that learns nothing`) : single && lines.some((l) => l.plain) ? entry("lm-key-ring", "learns nothing") : "",
        c.printed === null ? h("span", {}, `No diamond: ${c.unprinted}.`) : entry("lm-key-paper", `the paper, ${digits(c.printed)}`),
      );
      // the cursor: hover or arrows name a dot; a click, Enter or x leaves it out
      const cursor = p.add("rect", { class: "lm-cursor", rx: 4 });
      function choose(name) {
        picked = name;
        const spot = spots.find(([l]) => l.name === name), box = !spot ? [0, 0, 0, 0] : scatter ? [spot[1] - 7, spot[2] - 7, 14, 14] : [1, spot[2] - Math.max(step, 10) / 2, width - 2, Math.max(step, 10)];
        ["x", "y", "width", "height"].forEach((cell, i) => cursor.setAttribute(cell, box[i]));
        detail.replaceChildren(...(spot ? told(spot[0]) : [single ? "Click a method to put it in the claim's place." : `Click ${scatter ? "a dot" : "a row"} for its numbers, again to leave it out. Keys: arrows and x.`]));
      }
      function told(l) {
        if (single) return [h("b", {}, l.name), ` ${interval(l.m, signed)} ${c.unit}${l.n ? `, n ${l.n}` : ""}. `, l.on ? "" : h("button", { type: "button", onclick: act }, "put it in the claim's place")];
        const [a, b] = l.pair.slice(1), side = (name, e) => `${name || "value"} ${interval([e.value, e.low, e.high])} (n ${e.row.n ?? 1})`;
        return [h("b", {}, l.name), `: ${side(arm, a)}${b ? `; ${side(against, b)}` : ""}. ${l.short ? "Too few games or updates here, so it does not count. " : ""}`, l.short ? "" : h("button", { type: "button", onclick: act }, at.without.has(l.name) ? "take it in" : "leave it out")];
      }
      function act() {
        const line = spots.map(([l]) => l).find((l) => l.name === picked);
        if (!line || line.short) return;
        if (single) go({ arm: picked === c.rule.rows.method ? "" : picked });
        else go(toggled(picked));
      }
      const near = (event) => {
        const box = p.svg.getBoundingClientRect(), ex = ((event.clientX - box.left) * width) / box.width, ey = ((event.clientY - box.top) * tall) / box.height;
        if (ey < top) return "";
        const found = spots.map(([l, sx, sy]) => [scatter ? Math.hypot(sx - ex, sy - ey) : Math.abs(sy - ey), l.name]).sort((a, b) => a[0] - b[0])[0];
        return found && found[0] < (scatter ? 22 : Math.max(step, 12)) ? found[1] : "";
      };
      p.svg.onpointermove = (event) => { const name = near(event); if (event.pointerType === "mouse" && name && name !== picked) choose(name); };
      p.svg.onclick = (event) => {
        const name = near(event), again = name === picked;
        if (!name) return;
        choose(name);
        p.svg.focus({ preventScroll: true });
        if (again) act();
      };
      p.svg.onkeydown = (event) => {
        const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key], i = spots.findIndex(([l]) => l.name === picked);
        if (by && spots.length) choose(spots[Math.max(0, Math.min(spots.length - 1, i + by))][0].name);
        else if (["x", "Enter", " "].includes(event.key)) act();
        else return;
        event.preventDefault();
      };
      choose(picked);
      const groups = grouped(all.map((pair) => pair[0]));
      if (groups.length > 1 && groups.length < 12 && all.length > 20) families.append("Families: ", ...groups.map(([name, members]) => h("button", { type: "button", "aria-pressed": String(!at.without.has(name)), onclick: () => go(toggled(name)) }, `${at.without.has(name) ? "☐" : "☑"} ${name} ${members.length}`)));
    }

    function grouped(names) {
      const of = data.artifacts[c.artifact].families, groups = new Map();
      for (const name of names) if (of[name]) groups.set(of[name], [...(groups.get(of[name]) || []), name]);
      return [...groups];
    }

    // Questions, the least fair thing about the claim first: each is a link to a state, and says before what its verdict is.
    function questions(now, best, { used, arm, against, signed }) {
      const found = [], ask = (words, change, note = "") => {
        const state = { ...at, ...change }, there = R.answer(data, c, rows, state);
        if (there.measured && address(state) !== address(at)) found.push([words, state, there, note]);
      };
      if (best && !plain(arm)) {
        ask(`Put ${best.method}, which learns nothing, in its place`, { arm: best.method });
        if (c.rule.against.method && best.method !== against) ask(`Against ${best.method} instead of ${against}`, { rival: best.method });
      }
      if (!at.by) for (const by of ["games", "moves"]) ask(`After equal ${by}, not equal time`, { by });
      if (c.ours && c.ours.method && c.ours.method !== arm) ask(`Put our own ${c.ours.method} in its place`, { arm: c.ours.method, rival: c.ours.against || c.ours.baseline || at.rival });
      const farthest = (tried) => {
        const turned = tried.filter(([, , there]) => there.verdict !== now.verdict), far = ([, , there]) => Math.abs(there.measured[0] - now.measured[0]);
        return [turned.length, (turned.length ? turned : tried).sort((a, b) => far(b) - far(a))[0]];
      };
      const tries = (states) => states.map(([words, change]) => [words, change, R.answer(data, c, rows, { ...at, ...change })]).filter(([, , there]) => there.measured);
      const trainings = Math.max(0, ...R.pairs(now.rule, now.rows).flatMap((pair) => pair.slice(1).map((entry) => entry.by_training.length)));
      if (now.measured && trainings > 1) {
        const tried = tries(Array.from({ length: trainings }, (_, k) => [`Training ${k + 1} alone`, { training: k + 1 }])), [turned, one] = farthest(tried);
        if (one) ask(one[0], one[1], `${turned || "none"} of ${trainings} turn${turned < 2 ? "s" : ""} it`);
      }
      const groups = grouped(used), parts = used.length > 20 ? (groups.length > 1 && groups.length < 24 ? groups.map(([name]) => name) : []) : used.length > 2 ? used : [];
      if (now.measured && parts.length > 1) {
        const tried = tries(parts.map((name) => [`Without ${name.split("/").pop()}`, { without: new Set([...at.without, name]) }])), [turned, one] = farthest(tried);
        if (one) ask(one[0], one[1], `${turned || "none"} of ${plural(tried.length, used.length > 20 ? "family" : "instance").replace("familys", "families")} turn${turned < 2 ? "s" : ""} it`);
      }
      asked.append(...found.slice(0, 6).map(([words, state, there, note]) => h("li", {}, h("a", { href: address(state) }, words), " ", h("i", { class: `lm-pip lm-kind-${kind(there.verdict)}` }), ` ${there.verdict}, ${interval(there.measured, signed)}${note ? ` (${note})` : ""}`)));
    }

    addEventListener("hashchange", () => {
      const inside = root.contains(document.activeElement);
      draw();
      if (!inside && claims.has(location.hash.slice(1).split("?")[0])) root.scrollIntoView();
    });
    draw();
    if (claims.has(location.hash.slice(1).split("?")[0])) root.scrollIntoView();
    f.onresize(draw);
  };
})((globalThis.lm = globalThis.lm || {}));
