// Play the memory game: a small real program, three actions, undo, rivals, and the agent with the tree it searched.
"use strict";
(function (lm) {
  const NAMES = ["Copy", "NoCopy", "Drop"], LETTERS = "CND";

  lm.explorables.game = function (root, data) {
    const { frame, slider, button, select, player, colour, ladder, microseconds, mebibytes, h } = lm.ui;
    const f = frame(root, "game"), p = f.picture(352, "the fast memory over time"), actions = f.row("actions"), below = f.row("moves");
    const scores = h("div", { class: "lm-picture" }), trees = h("div", { class: "lm-picture", hidden: true });
    f.live.append(scores, trees);
    const q = lm.ui.picture(scores, 118, "returns"), r = lm.ui.picture(trees, 230, "the agent's search tree");
    const anew = () => { watch.stop(); kept = []; begin(); };
    const toyBytes = (mib) => Math.max(1, Math.round((data.toy.fast_bytes * mib) / 3));
    let game = null, kept = [], watching = false, greedy = 0, optimum = null;
    const which = select(f.bar, "program", [["perceptron", "a perceptron's training step, 34 buffers"], ["toy", "the toy of six buffers"]], () => { capacity.tell(); anew(); });
    const capacity = slider(f.bar, { name: "capacity", label: "fast memory", values: data.capacities, value: 3, show: (v) => (which.value === "toy" ? `${toyBytes(v)} bytes` : `${v} MiB`), change: anew });
    const bandwidth = slider(f.bar, { name: "bandwidth", label: "copy speed", values: data.bandwidths, value: 1, show: (v) => `${v} ×`, change: anew });
    const buttons = NAMES.map((name, action) => button(actions, name, () => play(action), { "data-action": action }));
    const moves = slider(below, { name: "moves", label: "move", min: 0, max: 0, value: 0, change: (v) => { game.back(0); kept.slice(0, v).forEach((a) => game.step(a)); show(); } });
    button(below, "undo", () => { if (game.moves.length) { do game.back(game.moves.length - 1); while (forced() >= 0 && game.moves.length); kept = game.moves.map((m) => m.action); goOn(); show(); } }, { "data-undo": true });
    button(below, "start again", anew);
    player(below, "play on greedily", () => {
      if (game.over) return false;
      const best = [1, 0, 2].find((a) => game.outcomes[a].legal);
      play(best);
      return !game.over;
    }, 150);
    const watch = player(below, "watch the agent", () => {
      if (!watching) {
        which.value = "perceptron"; capacity.set(3); bandwidth.set(1); kept = []; begin();
        watching = true;
        trees.hidden = false;
      }
      if (game.over) { watching = false; return false; }
      play(data.agent.actions[game.moves.length], true);
      return !game.over;
    }, 900);

    const isToy = () => which.value === "toy", atHome = () => !isToy() && capacity.value === 3 && bandwidth.value === 1;
    const program = () => (isToy() ? data.toy : data.program);
    function settings() {
      const base = program();
      return { fastBytes: isToy() ? toyBytes(capacity.value) : Math.round(capacity.value * 2 ** 20), copyRate: base.copy_bytes_per_s * bandwidth.value };
    }

    function begin() {
      watching = false;
      game = new lm.Game(program(), settings());
      greedy = lm.greedy(program(), settings()).value;
      optimum = isToy() ? lm.exhaust(program(), settings()) : null;
      kept.forEach((a) => { if (!game.over && game.outcomes[a].legal) game.step(a); });
      goOn();
      show();
    }

    // The one legal action where there is no choice, else -1; such moves are played by themselves.
    function forced() {
      const legal = game.over ? [] : [0, 1, 2].filter((a) => game.outcomes[a].legal);
      return legal.length === 1 ? legal[0] : -1;
    }
    function goOn() { while (forced() >= 0) game.step(forced()); }

    function play(action, byAgent = false) {
      if (!byAgent) { watching = false; watch.stop(); }
      if (game.over) return;
      if (!game.outcomes[action].legal) { f.say(`${NAMES[action]} is not legal: ${game.outcomes[action].why}.`); return; }
      game.step(action);
      goOn();
      kept = game.moves.map((m) => m.action);
      show();
    }

    // The move that lost most, if greedy play goes on after it and after each other action.
    function costliest() {
      const mine = game.moves.map((m) => m.action), trial = new lm.Game(program(), settings());
      const onward = (moves) => Math.max(...[[2, 1, 0], [1, 2, 0]].map((order) => {
        trial.restart();
        moves.forEach((a) => trial.step(a));
        return trial.playOn(() => order);
      }));
      let worst = null;
      mine.forEach((action, i) => {
        const before = mine.slice(0, i);
        trial.restart();
        before.forEach((a) => trial.step(a));
        const legal = [0, 1, 2].filter((a) => trial.outcomes[a].legal);
        if (legal.length < 2 || !legal.includes(action)) return;
        const values = legal.map((a) => onward([...before, a])), most = Math.max(...values), cost = most - values[legal.indexOf(action)];
        if (cost > (worst ? worst.cost : 5e-4)) worst = { move: i, action, cost, better: legal[values.indexOf(most)] };
      });
      return worst;
    }
    const memory = { of: "", said: "" };
    function verdict() {
      const key = JSON.stringify([which.value, settings(), game.moves.map((m) => m.action)]);
      if (memory.of === key) return memory.said;
      const worst = costliest(), agent = worst && atHome() ? ` The agent chose ${NAMES[data.agent.actions[worst.move]]} there.` : "";
      memory.of = key;
      memory.said = worst ? ` Move ${worst.move + 1}, ${NAMES[worst.action]}, cost ${(100 * worst.cost).toFixed(1)} points against ${NAMES[worst.better]}, if greedy plays on after both.${agent}` : " No move cost anything, if greedy plays on after it.";
      return memory.said;
    }

    function show() {
      const here = game.moves.length;
      moves.limit(Math.max(kept.length, here));
      moves.set(here);
      buttons.forEach((made, action) => {
        const o = game.over ? null : game.outcomes[action];
        made.setAttribute("aria-disabled", !o || !o.legal); // not disabled: it keeps the keyboard
        made.textContent = `${NAMES[action]}${o && o.legal && action !== lm.DROP ? `: saves ${words(o.reward)}` : ""}`;
        made.title = o && !o.legal ? o.why : "";
      });
      draw();
      drawScores();
      drawTree();
      f.write({ program: which.value, capacity: capacity.value, bandwidth: bandwidth.value, moves: game.moves.map((m) => LETTERS[m.action]).join("") });
    }

    function words(seconds) { return isToy() ? `${seconds} s` : microseconds(seconds); }

    function draw() {
      const { width, height } = p.clear(), base = program(), steps = base.supply_s.length, left = 4, w = (width - 2 * left) / steps, tall = 190, top = 24;
      const high = tall / game.fastBytes, b = game.state.cursor, t = game.over ? -1 : base.instruction[b];
      p.text(left, 14, `fast memory, ${isToy() ? `${game.fastBytes} bytes` : mebibytes(game.fastBytes)}`, { class: "lm-strong" });
      p.add("rect", { x: left, y: top, width: steps * w, height: tall, class: "lm-room" });
      if (t >= 0) p.add("rect", { x: left + t * w, y: top, width: w, height: tall, class: "lm-step" });
      for (const a of game.state.held) {
        p.add("rect", { x: left + a.start * w + 1, y: top + tall - a.top * high, width: (a.end - a.start + 1) * w - 2, height: Math.max(1, (a.top - a.offset) * high - 1), fill: colour(a.tensor), rx: 2 });
      }
      if (!game.over) {
        game.outcomes.forEach((o, action) => {
          if (!o.legal || action === lm.DROP || o.end < o.start) return;
          p.add("rect", { x: left + o.start * w + 2 + action, y: top + tall - (o.offset + base.bytes[b]) * high + action, width: (o.end - o.start + 1) * w - 4 - 2 * action, height: Math.max(2, base.bytes[b] * high - 2 - 2 * action), class: `lm-ghost lm-ghost-${action}`, rx: 2 });
        });
      }
      p.text(left, top + tall + 18, "copy time left in each instruction");
      const most = Math.max(...base.supply_s);
      game.state.supply.forEach((x, u) => {
        p.add("rect", { x: left + u * w + 1, y: top + tall + 24, width: w - 2, height: 40, class: "lm-room" });
        p.add("rect", { x: left + u * w + 1, y: top + tall + 64 - (40 * x) / most, width: w - 2, height: (40 * x) / most, class: "lm-supply" });
      });
      const coming = Math.min(12, game.length - b), cell = (width - 2 * left) / 12;
      if (coming) p.text(left, top + tall + 84, "buffers to come, by size; r: read, w: written");
      for (let i = 0; i < coming; i++) {
        const size = Math.max(2, 22 * Math.sqrt(Math.min(base.bytes[b + i] / game.fastBytes, 1))), x = left + i * cell, what = base.is_output[b + i] ? "written" : "read";
        const title = lm.ui.s("title", {}, `${base.tensors[base.tensor[b + i]]}, ${isToy() ? `${base.bytes[b + i]} bytes` : mebibytes(base.bytes[b + i])}, ${what} by instruction ${base.instruction[b + i]}`);
        p.add("rect", { x: x + 1, y: top + tall + 114 - size, width: cell - 2, height: size, fill: colour(base.tensor[b + i]), rx: 2 }, title);
        p.text(x + cell / 2, top + tall + 126, `${base.instruction[b + i]}${what[0]}`, { "text-anchor": "middle", class: "lm-small" });
      }
      if (game.over) { f.say(`The game is over: you saved ${(100 * game.value).toFixed(1)} % of the possible time. Greedy saves ${(100 * greedy).toFixed(1)} %.${watching ? "" : verdict()}`); return; }
      const legal = NAMES.filter((_, a) => game.outcomes[a].legal).join(", ");
      f.say(`Buffer ${b + 1} of ${game.length}: ${base.tensors[base.tensor[b]]}, ${base.is_output[b] ? "written" : "read"} by instruction ${t}, ${isToy() ? `${base.bytes[b]} bytes` : mebibytes(base.bytes[b])}. Legal: ${legal}. Saved so far: ${(100 * game.value).toFixed(1)} %.${game.resets ? ` Dead ends: ${game.resets}.` : ""}`);
    }

    function drawScores() {
      const { width } = q.clear(), known = isToy() ? [optimum, optimum] : data.best[`${capacity.value} ${bandwidth.value}`];
      const percent = (v) => `${(100 * v).toFixed(1)} %`;
      const rows = [
        { name: "you", value: game.value, mark: true, kind: "lm-bar-mine" }, { name: "greedy", value: greedy },
        { name: "the agent", value: atHome() ? data.agent.value : null, text: isToy() ? "has not played the toy" : "plays at 3 MiB, 1 ×" },
        { name: isToy() ? "all games tried" : "edit-search", value: known[0] }, { name: "proven bound", value: known[1], kind: "lm-bar-bound" },
      ];
      ladder(q, rows.map((row) => ({ ...row, text: row.text && row.value === null ? row.text : percent(row.value) })), { top: 2, width, left: 100, most: 1 });
    }

    function drawTree() {
      const at = game.moves.length, move = data.agent.moves.find((m) => m.buffer === at);
      if (!watching || !move || game.over) { trees.hidden = true; return; }
      trees.hidden = false;
      const { width } = r.clear(`The agent's search before move ${at + 1}: value ${move.value}; it chooses ${NAMES[move.action]}.`);
      r.text(4, 14, `its search before move ${at + 1}: visits in the circles, predicted reward on the branches`, { class: "lm-strong" });
      const children = new Map([[0, []]]), info = new Map();
      for (const [node, parent, by, visits, value, reward] of move.nodes) {
        info.set(node, { by, visits, value, reward });
        children.set(node, []);
        (children.get(parent) || []).push(node);
      }
      const leaves = (n) => (children.get(n).length ? children.get(n).reduce((sum, c) => sum + leaves(c), 0) : 1);
      const wide = (width - 20) / leaves(0);
      (function place(node, left, depth, from) {
        const size = leaves(node) * wide, x = left + size / 2, y = 36 + depth * 42;
        if (depth > 4) return;
        if (from) {
          const chosen = depth === 1 && info.get(node).by === move.action;
          r.svg.prepend(lm.ui.s("line", { x1: from[0], y1: from[1], x2: x, y2: y, class: chosen ? "lm-branch lm-chosen" : "lm-branch" }));
          const { by, reward } = info.get(node);
          r.text((from[0] + x) / 2 + 3, (from[1] + y) / 2 + 3, depth === 1 ? `${NAMES[by]} ${reward.toFixed(2)}` : LETTERS[by]);
        }
        let next = left;
        for (const child of children.get(node).sort((a, c) => info.get(a).by - info.get(c).by)) { place(child, next, depth + 1, [x, y]); next += leaves(child) * wide; }
        r.add("circle", { cx: x, cy: y, r: 10, class: "lm-node" });
        r.text(x, y + 4, String(node ? info.get(node).visits : "root").slice(0, 4), { "text-anchor": "middle", class: "lm-on-node" });
      })(0, 10, 0, null);
    }

    f.live.addEventListener("keydown", (event) => {
      if (event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
      const action = LETTERS.indexOf(event.key.toUpperCase());
      if (action >= 0 && event.key.length === 1) play(action);
      else if (event.key.toUpperCase() === "U" || event.key === "Backspace") root.querySelector("[data-undo]").click();
    });
    const link = f.read();
    if (link.program === "toy") which.value = "toy";
    if (data.capacities.includes(Number(link.capacity))) capacity.set(Number(link.capacity));
    if (data.bandwidths.includes(Number(link.bandwidth))) bandwidth.set(Number(link.bandwidth));
    kept = [...(link.moves || "")].map((c) => LETTERS.indexOf(c)).filter((a) => a >= 0);
    if (link.best && !isToy()) kept = data.best[`${capacity.value} ${bandwidth.value}`][2];
    begin();
    f.onresize(show);
  };
})((globalThis.lm = globalThis.lm || {}));
