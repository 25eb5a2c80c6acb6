// What the explorables share: elements, sliders, play buttons, links to a state, and words for those who do not see.
"use strict";
(function (lm) {
  const SVG = "http://www.w3.org/2000/svg";

  function fill(element, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value === true) element.setAttribute(key, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
  }
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  // A picture as wide as its box, in pixels, so that text keeps its size on a phone.
  function picture(box, height, label) {
    const svg = s("svg", { role: "img", "aria-label": label });
    box.append(svg);
    return {
      svg,
      clear(words) {
        const width = Math.max(280, Math.min(720, Math.floor(box.clientWidth || 640))), tall = typeof height === "function" ? height(width) : height;
        svg.setAttribute("viewBox", `0 0 ${width} ${tall}`);
        svg.setAttribute("width", width);
        svg.setAttribute("height", tall);
        if (words) svg.setAttribute("aria-label", words);
        svg.replaceChildren();
        return { width, height: tall };
      },
      add(tag, attributes, ...children) { const made = s(tag, attributes, ...children); svg.append(made); return made; },
      // Words that would reach over the right edge begin further left.
      text(x, y, words, more) {
        const made = this.add("text", { x, y, ...more }, words), width = svg.viewBox.baseVal.width;
        if (!(more && more["text-anchor"]) && x + 9 * words.length > width) made.setAttribute("x", Math.max(0, Math.min(x, width - made.getComputedTextLength() - 2)));
        return made;
      },
    };
  }

  let serial = 0;
  // A labelled slider over whole numbers or given values; arrows, Home and End are the browser's own.
  function slider(bar, { name, label, values, min, max, value, show, change }) {
    const id = `lm-slider-${++serial}`, low = values ? 0 : min, high = values ? values.length - 1 : max;
    const input = h("input", { type: "range", id, min: low, max: high, step: 1, "data-name": name });
    const shown = h("output", { for: id });
    const made = {
      input,
      get value() { return values ? values[Number(input.value)] : Number(input.value); },
      set(next) {
        input.value = values ? Math.max(0, values.indexOf(next)) : next;
        this.tell();
      },
      limit(next) { input.max = next; },
      tell() {
        const words = show ? show(this.value) : String(this.value);
        shown.textContent = words;
        input.setAttribute("aria-valuetext", words);
      },
    };
    input.addEventListener("input", () => { made.tell(); change(made.value); });
    bar.append(h("label", { class: "lm-slider", for: id }, h("span", {}, label), input, shown));
    made.set(value);
    return made;
  }

  function button(bar, label, click, more) {
    const made = h("button", { type: "button", onclick: click, ...more }, label);
    bar.append(made);
    return made;
  }

  function select(bar, label, options, change) {
    const id = `lm-select-${++serial}`;
    const made = h("select", { id, onchange: () => change(made.value) }, ...options.map(([value, words]) => h("option", { value }, words)));
    bar.append(h("label", { class: "lm-select", for: id }, h("span", {}, label), made));
    return made;
  }

  // A play button that calls step() until it says there is nothing left; a second press stops it.
  function player(bar, label, step, pause = 500) {
    let timer = null;
    const stop = () => { clearInterval(timer); timer = null; made.textContent = `▶ ${label}`; made.setAttribute("aria-pressed", "false"); };
    const made = button(bar, "", () => {
      if (timer) return stop();
      made.textContent = "❚❚ stop";
      made.setAttribute("aria-pressed", "true");
      timer = setInterval(() => { if (!made.isConnected || !step()) stop(); }, pause);
      if (!step()) stop();
    });
    stop();
    return { button: made, stop };
  }

  // The frame of an explorable: toolbar, picture, words that are read out, and its own part of the page's address. A click
  // anywhere in it brings the keyboard there.
  function frame(root, name) {
    const live = h("div", { class: "lm-live", tabindex: -1 }), bar = h("div", { class: "lm-bar", role: "group", "aria-label": root.dataset.label });
    const box = h("div", { class: "lm-picture" }), words = h("p", { class: "lm-words", role: "status", "aria-live": "polite" });
    live.append(bar, box, words);
    root.insertBefore(live, root.querySelector("figcaption"));
    root.classList.add("lm-ready");
    let resize = null, touched = false; // a page that nobody has touched keeps its address
    for (const kind of ["pointerdown", "keydown", "input", "click"]) live.addEventListener(kind, () => { touched = true; }, true);
    return {
      root, live, bar, box,
      say(text) { if (words.textContent !== text) words.textContent = text; },
      row(label) { const made = h("div", { class: "lm-bar", role: "group", "aria-label": label }); live.insertBefore(made, words); return made; },
      picture(height, label) { return picture(box, height, label); },
      onresize(draw) {
        let last = 0;
        new ResizeObserver(() => {
          if (box.clientWidth === last) return;
          last = box.clientWidth;
          clearTimeout(resize);
          resize = setTimeout(draw, 50);
        }).observe(box);
      },
      read() {
        let found = "";
        try { found = decodeURIComponent(location.hash.slice(1)); } catch (error) { /* a damaged link */ }
        if (!found.startsWith(`${name}:`)) return {};
        root.scrollIntoView({ block: "nearest" });
        return Object.fromEntries(new URLSearchParams(found.slice(name.length + 1)));
      },
      write(state) {
        if (!touched || !live.isConnected) return;
        try { history.replaceState(null, "", `#${name}:${new URLSearchParams(state)}`); } catch (error) { /* a page that may not be linked to */ }
      },
    };
  }

  // A colour per tensor; neighbours differ in hue.
  function colour(n) { return `hsl(${Math.round(((n * 0.6180339887) % 1) * 360)} ${45 + 20 * (n % 2)}% ${[62, 48, 55][n % 3]}%)`; }

  // Bars with names and numbers: [{name, value, text, mark}], from 0 to the largest.
  function ladder(p, rows, { top, width, left = 150, height = 22, most }) {
    const room = width - left - 66, scale = room / (most || Math.max(...rows.map((r) => r.value || 0), 1e-12));
    rows.forEach((row, i) => {
      const y = top + i * height;
      p.text(left - 8, y + 15, row.name, { "text-anchor": "end", class: row.mark ? "lm-strong" : null });
      if (row.value === null) p.text(left + 4, y + 15, row.text);
      else {
        p.add("rect", { x: left, y: y + 3, width: Math.max(0, row.value * scale), height: height - 7, class: row.kind || "lm-bar-fill" });
        p.text(left + row.value * scale + 5, y + 15, row.text);
      }
    });
  }

  function microseconds(seconds) { return `${(seconds * 1e6).toFixed(Math.abs(seconds) < 1e-5 ? 2 : 1)} µs`; }
  function mebibytes(bytes) { return `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 22 ? 2 : 1)} MiB`; }

  const makers = {};
  function start() {
    document.querySelectorAll("[data-explorable]").forEach((root) => {
      const make = makers[root.dataset.explorable], data = root.querySelector('script[type="application/json"]');
      if (make && data && !root.classList.contains("lm-ready")) make(root, JSON.parse(data.textContent));
    });
  }
  // A link to a state of an explorable of this page makes that one anew.
  function follow() {
    const root = document.querySelector(`[data-explorable="${CSS.escape(location.hash.slice(1).split(":")[0])}"]`);
    if (!root || !location.hash.includes(":")) return;
    root.querySelector(".lm-live").remove();
    root.classList.remove("lm-ready");
    start();
  }
  document.addEventListener("DOMContentLoaded", start);
  addEventListener("hashchange", follow);

  Object.assign(lm, { ui: { h, s, picture, frame, slider, button, select, player, colour, ladder, microseconds, mebibytes }, explorables: makers });
})((globalThis.lm = globalThis.lm || {}));
