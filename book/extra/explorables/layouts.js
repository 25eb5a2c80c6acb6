// AlexNet's training step as the compiler lays it out and as the mapping of the highest return does, step by step.
"use strict";
(function (lm) {
  lm.explorables.layouts = function (root, data) {
    const { frame, slider, player, colour, mebibytes } = lm.ui, f = frame(root, "layouts"), p = f.picture((w) => (w < 520 ? 520 : 304), "two memory layouts");
    const state = { step: Math.round(data.steps / 2), over: null };
    const steps = slider(f.bar, { name: "step", label: "instruction", min: 0, max: data.steps, value: state.step, change: (v) => { play.stop(); state.step = v; draw(); f.write({ step: v }); } });
    const play = player(f.bar, "play", () => {
      state.step = state.step >= data.steps ? 1 : state.step + 1;
      steps.set(state.step);
      draw();
      return state.step < data.steps;
    }, 120);

    function panel(x, y, w, tall, title, rows, clock) {
      const wide = w / data.steps, high = tall / data.fast_bytes, now = state.step ? clock[state.step - 1] : 0, last = Math.max(...data.clocks.map((c) => c[data.steps - 1]));
      p.text(x, y - 6, title, { class: "lm-strong" });
      p.add("rect", { x, y: y + tall + 4, width: w, height: 8, class: "lm-room" });
      p.add("rect", { x, y: y + tall + 4, width: (w * now) / last, height: 8, class: "lm-supply" });
      p.text(x, y + tall + 34, `${(1e3 * now).toFixed(2)} ms`, { class: "lm-clock" });
      p.add("rect", { x, y, width: w, height: tall, class: "lm-room" });
      const held = [];
      for (const [tensor, start, end, offset, bytes] of rows) {
        if (start >= state.step) continue;
        const stop = Math.min(end + 1, state.step);
        if (end + 1 >= state.step) held.push([offset, offset + bytes]);
        const box = { x: x + start * wide, y: y + tall - (offset + bytes) * high, width: (stop - start) * wide, height: bytes * high }, name = data.tensors[tensor];
        p.add("rect", { ...box, fill: colour(tensor), stroke: tensor === state.over ? "currentColor" : "white", "stroke-width": tensor === state.over ? 2 : 0.3, "data-tensor": tensor }, lm.ui.s("title", {}, `${name}, ${mebibytes(bytes)}`));
        const [cx, cy] = [box.x + box.width / 2, box.y + box.height / 2], long = 5.8 * name.length + 6; // a name stands where it fits
        const turn = box.height >= 12 && box.width >= long ? 0 : box.width >= 12 && box.height >= long ? -90 : null;
        if (turn !== null) p.text(cx, cy + 3.5, name, { class: "lm-named", "text-anchor": "middle", transform: `rotate(${turn} ${cx} ${cy})` });
      }
      p.add("line", { x1: x + state.step * wide, x2: x + state.step * wide, y1: y, y2: y + tall, class: "lm-now" });
      let top = 0, sum = 0; // in-place updates lie on what they update
      for (const [from, to] of held.sort((a, b) => a[0] - b[0])) { sum += Math.max(0, to - Math.max(from, top)); top = Math.max(top, to); }
      return sum;
    }

    const ms = (which) => (state.step ? 1e3 * data.clocks[which][state.step - 1] : 0).toFixed(2);
    function draw() {
      const { width, height } = p.clear(), narrow = width < 520, w = narrow ? width : width / 2 - 10, tall = narrow ? height / 2 - 84 : height - 90;
      const a = panel(0, 22, w, tall, "the compiler's layout", data.compiler, data.clocks[0]);
      const b = panel(narrow ? 0 : width / 2 + 10, narrow ? height / 2 + 20 : 22, w, tall, "the highest return found", data.best, data.clocks[1]);
      p.text(0, height - 6, `→ ${data.steps} instructions; ↑ ${mebibytes(data.fast_bytes)}${narrow ? "" : " of fast memory"}; bars: time so far`);
      f.say(`Instruction ${state.step} of ${data.steps}: the compiler's layout holds ${mebibytes(a)} and has taken ${ms(0)} ms so far; that of the highest return holds ${mebibytes(b)} and has taken ${ms(1)} ms.`);
    }

    // The same tensor in the other half.
    p.svg.addEventListener("pointerover", (event) => {
      const over = event.target.dataset.tensor, tensor = over === undefined ? null : Number(over);
      if (tensor === state.over) return;
      state.over = tensor;
      for (const box of p.svg.querySelectorAll("[data-tensor]")) {
        const same = Number(box.dataset.tensor) === tensor;
        box.setAttribute("stroke", same ? "currentColor" : "white");
        box.setAttribute("stroke-width", same ? 2 : 0.3);
      }
    });

    const link = f.read();
    if (link.step) { state.step = Math.min(data.steps, Math.max(0, Number(link.step) || 0)); steps.set(state.step); }
    draw();
    if (!link.step && !matchMedia("(prefers-reduced-motion: reduce)").matches) play.button.click(); // it opens half-way, and runs to its end once
    f.onresize(draw);
  };
})((globalThis.lm = globalThis.lm || {}));
