// AlexNet's buffers: greedy by price, recomputed as the capacity and the prices move; the best mapping found beside it.
"use strict";
(function (lm) {
  lm.explorables.alexnet = function (root, data) {
    const { frame, slider, button, player, colour, ladder, mebibytes, h } = lm.ui;
    const f = frame(root, "alexnet"), p = f.picture((w) => (w < 520 ? 440 : 260), "two memory layouts"), own = data.program.fast_bytes / 2 ** 20;
    const scores = h("div", { class: "lm-picture" }), below = f.row("rules");
    f.live.append(scores);
    const q = lm.ui.picture(scores, 74, "returns");
    const prices = Array.from({ length: 37 }, (_, i) => -6 + i / 4), show = (v) => v.toFixed(2);
    const capacity = slider(f.bar, { name: "capacity", label: "fast memory", values: [8, 16, 24, 32, 48, own, 80, 96, 128], value: own, show: (v) => `${v} MiB`, change: draw });
    const price = slider(f.bar, { name: "price", label: "price of memory (log)", values: prices, value: 0, show, change: draw });
    const copyPrice = slider(f.bar, { name: "copy", label: "extra price of a copy", values: prices.filter((v) => v >= -2), value: 1, show, change: draw });
    let foresight = 1;
    const looks = button(below, "", () => { foresight = 1 - foresight; draw(); }, { "data-foresight": true });
    player(below, "sweep the price", () => {
      const i = prices.indexOf(price.value);
      price.set(prices[i + 1 < prices.length ? i + 1 : 0]);
      draw();
      return i + 2 < prices.length;
    }, 250);
    button(below, "find the best price", () => {
      let best = [-1];
      for (const v of prices) for (const c of [0, 1, 2]) { const r = play(v, c).value; if (r > best[0]) best = [r, v, c]; }
      price.set(best[1]);
      copyPrice.set(best[2]);
      draw();
    });

    function play(v, c) {
      const game = new lm.Game(data.program, { fastBytes: Math.round(capacity.value * 2 ** 20) });
      game.playOn((g) => g.scores({ price: v, copyPrice: c, foresight, supplyPrice: 0 }));
      return game;
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
      const game = play(price.value, copyPrice.value), home = capacity.value === own;
      const rows = game.state.held.map((r) => [r.tensor, r.start, r.end, r.offset, r.top - r.offset]);
      const { width, height } = p.clear(), narrow = width < 520, w = narrow ? width : width / 2 - 10, tall = narrow ? height / 2 - 40 : height - 50;
      panel(0, 22, w, tall, `greedy at this price, ${capacity.value} MiB`, rows, game.fastBytes);
      panel(narrow ? 0 : width / 2 + 10, narrow ? height / 2 + 16 : 22, w, tall, `the best found, ${own} MiB`, data.best, data.program.fast_bytes);
      p.text(0, height - 6, "time → ; each rectangle is a tensor in fast memory");
      const sized = q.clear();
      const percent = (v) => `${(100 * v).toFixed(2)} %`;
      ladder(q, [
        { name: "greedy here", value: game.value, text: percent(game.value), mark: true, kind: "lm-bar-mine" },
        { name: `the best at ${own} MiB`, value: data.value, text: percent(data.value) },
        { name: "proven bound", value: data.bound, text: percent(data.bound), kind: "lm-bar-bound" },
      ], { top: 2, width: sized.width, left: 130, most: 1 });
      const placed = game.moves.filter((m) => m.action !== lm.DROP).length;
      looks.textContent = foresight ? "it sees later uses: yes" : "it sees later uses: no";
      looks.setAttribute("aria-pressed", String(Boolean(foresight)));
      f.say(`Greedy places ${placed} of ${game.length} buffers and saves ${percent(game.value)} of what could be saved${home ? `; the best mapping saves ${percent(data.value)}, and no mapping more than ${percent(data.bound)}` : ""}.${game.resets ? ` Dead ends: ${game.resets}.` : ""}`);
      f.write({ capacity: capacity.value, price: price.value, copy: copyPrice.value, foresight });
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
