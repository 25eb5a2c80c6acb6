// AlexNet's buffers: greedy by price, recomputed as the capacity and the prices move, its return over all prices, and
// beside it the best mapping found for the same capacity.
"use strict";
(function (lm) {
  lm.explorables.alexnet = function (root, data) {
    const { frame, slider, button, player, colour, ladder, mebibytes, h } = lm.ui;
    const f = frame(root, "alexnet"), p = f.picture((w) => (w < 520 ? 440 : 260), "two memory layouts"), own = data.program.fast_bytes / 2 ** 20;
    const scores = h("div", { class: "lm-picture" }), below = f.row("rules");
    f.live.append(scores);
    const q = lm.ui.picture(scores, 214, "returns");
    const prices = Array.from({ length: 37 }, (_, i) => -3 + i / 4), copies = [0, 0.5, 1, 1.5, 2, 3], seen = new Map(); // logarithms
    const unit = (v) => (Math.exp(v) * data.program.scale[0] * 1e6) / capacity.value;
    const capacity = slider(f.bar, { name: "capacity", label: "fast memory", values: Object.keys(data.limits).map(Number), value: own, show: (v) => `${v} MiB`, change: () => { price.tell(); draw(); } });
    const price = slider(f.bar, { name: "price", label: "price", values: prices, value: 2, show: (v) => `${unit(v).toPrecision(2)} µs a MiB and step`, change: draw });
    const copyPrice = slider(f.bar, { name: "copy", label: "price of a copied buffer", values: copies, value: 0, show: (v) => `× ${Math.exp(v).toFixed(1)}`, change: draw });
    let foresight = 1;
    const looks = button(below, "", () => { foresight = 1 - foresight; draw(); }, { "data-foresight": true });
    player(below, "sweep the price", () => {
      const next = (prices.indexOf(price.value) + 1) % prices.length;
      price.set(prices[next]);
      draw();
      return next + 1 < prices.length;
    }, 250);
    button(below, "find the best price", () => {
      let best = [-1]; // of equals the highest price
      for (const c of copies) for (const [v, r] of curve(c)) if (r > best[0] || (r === best[0] && v > best[1])) best = [r, v, c];
      price.set(best[1]);
      copyPrice.set(best[2]);
      draw();
    }, { "data-best": true });

    function play(v, c) {
      const game = new lm.Game(data.program, { fastBytes: Math.round(capacity.value * 2 ** 20) });
      game.playOn((g) => g.scores({ price: v, copyPrice: c, foresight, supplyPrice: 0 }));
      return game;
    }

    // [price, return] at all prices.
    function curve(c) {
      const key = `${capacity.value} ${c} ${foresight}`;
      if (!seen.has(key)) seen.set(key, prices.map((v) => [v, play(v, c).value]));
      return seen.get(key);
    }

    function panel(x, y, w, tall, title, rows, room) {
      const wide = w / data.program.supply_s.length, high = tall / room;
      p.text(x, y - 6, title, { class: "lm-strong" });
      p.add("rect", { x, y, width: w, height: tall, class: "lm-room" });
      for (const [tensor, start, end, offset, bytes] of rows) {
        p.add("rect", { x: x + start * wide, y: y + tall - (offset + bytes) * high, width: (end - start + 1) * wide, height: bytes * high, fill: colour(tensor), stroke: "white", "stroke-width": 0.3 });
      }
    }

    function draw() {
      const game = play(price.value, copyPrice.value), [found, bound, layout] = data.limits[capacity.value];
      const rows = game.state.held.map((r) => [r.tensor, r.start, r.end, r.offset, r.top - r.offset]);
      const { width, height } = p.clear(), narrow = width < 520, w = narrow ? width : width / 2 - 10, tall = narrow ? height / 2 - 40 : height - 50;
      panel(0, 22, w, tall, `greedy at this price, ${capacity.value} MiB`, rows, game.fastBytes);
      panel(narrow ? 0 : width / 2 + 10, narrow ? height / 2 + 16 : 22, w, tall, `the best found, ${capacity.value} MiB`, layout, game.fastBytes);
      p.text(0, height - 6, "time → ; each rectangle is a tensor in fast memory");
      const sized = q.clear();
      const percent = (v) => `${(100 * v).toFixed(2)} %`;
      ladder(q, [
        { name: "greedy here", value: game.value, text: percent(game.value), mark: true, kind: "lm-bar-mine" },
        { name: "the best found", value: found, text: percent(found) },
        { name: "proven bound", value: bound, text: percent(bound), kind: "lm-bar-bound" },
      ], { top: 2, width: sized.width, left: 130, most: 1 });
      drawCurve(sized.width, bound, game.value);
      const placed = game.moves.filter((m) => m.action !== lm.DROP).length;
      looks.textContent = foresight ? "it sees later uses: yes" : "it sees later uses: no";
      looks.setAttribute("aria-pressed", String(Boolean(foresight)));
      f.say(`Greedy places ${placed} of ${game.length} buffers and saves ${percent(game.value)} of what could be saved; the best mapping found saves ${percent(found)}, and no mapping more than ${percent(bound)}.${game.resets ? ` Dead ends: ${game.resets}.` : ""}`);
      f.write({ capacity: capacity.value, price: price.value, copy: copyPrice.value, foresight });
    }

    // The return over the price, and where it stands.
    function drawCurve(width, bound, value) {
      const left = 46, w = width - left - 14, top = 84, tall = 92, most = Math.max(bound, 0.01), x = (v) => left + (w * (v - prices[0])) / (prices.at(-1) - prices[0]), y = (r) => top + tall - (tall * r) / most;
      q.add("rect", { x: left, y: top, width: w, height: tall, class: "lm-room" });
      for (const r of [0, most]) q.text(left - 4, y(r) + 4, `${(100 * r).toFixed(0)} %`, { "text-anchor": "end" });
      q.add("path", { d: curve(copyPrice.value).map(([v, r], i) => `${i ? "L" : "M"}${x(v).toFixed(1)} ${y(r).toFixed(1)}`).join(""), class: "lm-line lm-line-1" });
      q.add("circle", { cx: x(price.value), cy: y(value), r: 5, class: "lm-dot-1" });
      q.text(left, top + tall + 16, "↑ greedy's return; → price, in steps of 1.3 times");
    }

    const link = f.read();
    if (link.capacity) capacity.set(Number(link.capacity));
    if (link.price) price.set(Number(link.price));
    if (link.copy) copyPrice.set(Number(link.copy));
    if (link.foresight === "0") foresight = 0;
    draw();
    f.onresize(draw);
  };
})((globalThis.lm = globalThis.lm || {}));
