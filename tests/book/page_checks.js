// What test_pages.py asks of a page: readable contrast, and names, values and order for those who do not see it.
"use strict";
globalThis.checks = (() => {
  const parse = (text) => {
    const found = text.match(/[\d.]+/g).map(Number);
    return found.length < 4 ? [...found.slice(0, 3), 1] : found;
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const shown = (e) => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });

  // The colour behind an element: its own and its ancestors' backgrounds, one over the other.
  function behind(element) {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      layers.push(parse(getComputedStyle(e).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  }

  // Words of less contrast than 4.5, or 3 where they are large (WCAG 2.1, 1.4.3); formulas and matplotlib's pictures,
  // which bring paper of their own, are left out.
  function contrast() {
    const found = new Map(), walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode.textContent.trim(), e = walker.currentNode.parentElement;
      if (!text || !shown(e) || e.closest("script, style, mjx-container, .headerlink, [aria-disabled=true]")) continue;
      const style = getComputedStyle(e), svg = e.closest("svg");
      if (svg && !svg.closest(".lm-explorable, .lm-figure")) continue;
      let ground = behind(svg ? svg.parentElement : e);
      if (e.matches(".lm-on-node, .lm-named")) ground = parse(getComputedStyle(e.previousElementSibling).fill);
      const a = light(over(parse(svg ? style.fill : style.color), ground)), b = light(ground);
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), size = parseFloat(style.fontSize);
      const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
      if (ratio < least - 0.01) found.set(`${e.tagName}.${e.getAttribute("class")}`, `${ratio.toFixed(2)} ${style.color} "${text.slice(0, 40)}"`);
    }
    return [...found].map((pair) => pair.join(": "));
  }

  const called = (e) => e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.title || e.alt
    || (e.labels && e.labels.length) || e.textContent.trim() || e.querySelector("title");
  const CONTROLS = "button, a[href], select, input, textarea, [role=slider], [role=button], [role=img], img";

  // Controls without a name, sliders without a value, a tab order by hand, headings that skip a level.
  function names() {
    const main = document.querySelector("main"), faults = [], cut = (e) => e.outerHTML.slice(0, 90);
    for (const e of main.querySelectorAll(CONTROLS)) if (shown(e) && !called(e) && !e.closest("[aria-hidden=true], mjx-container")) faults.push(`no name: ${cut(e)}`);
    for (const e of main.querySelectorAll("[tabindex]")) if (Number(e.getAttribute("tabindex")) > 0) faults.push(`tab order: ${cut(e)}`);
    for (const e of main.querySelectorAll("[role=slider]:not([aria-valuenow])")) faults.push(`no value: ${cut(e)}`);
    let last = 1;
    for (const e of document.querySelectorAll(".bd-article :is(h1, h2, h3, h4)")) {
      const level = Number(e.tagName[1]);
      if (level > last + 1) faults.push(`the heading jumps: ${e.textContent}`);
      last = level;
    }
    if (!document.documentElement.lang) faults.push("the page has no language");
    if (!document.title) faults.push("the page has no title");
    return faults;
  }

  // What reaches out of the window to the right, but for what scrolls by itself; formulas that do not fit their column.
  function wide() {
    const cut = [...document.querySelectorAll("mjx-container[display=true]")].find((e) => e.scrollWidth > e.clientWidth + 1);
    if (cut) return `a formula is cut: ${cut.textContent.slice(0, 60)}`;
    const beyond = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (beyond <= 1) return "";
    const culprits = [...document.querySelectorAll("main *")]
      .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".lm-table, pre, svg, mjx-container, .bd-sidebar-secondary"))
      .map((e) => `${e.tagName}.${e.className}`);
    return `scrolls ${beyond} px sideways (${culprits.slice(0, 3).join(", ")})`;
  }

  // Cells of tables and blocks of code whose words reach over the right edge of any ancestor that cuts or scrolls: the
  // smallest of these edges counts, for the nearest one may itself be cut.
  function cut() {
    const found = [], range = document.createRange();
    for (const e of document.querySelectorAll(".bd-article :is(td, th, caption, pre)")) {
      if (!shown(e) || !e.textContent.trim()) continue;
      range.selectNodeContents(e);
      let edge = innerWidth;
      for (let a = e; a; a = a.parentElement) {
        if (getComputedStyle(a).overflowX !== "visible") edge = Math.min(edge, a.getBoundingClientRect().left + a.clientLeft + a.clientWidth);
      }
      const beyond = range.getBoundingClientRect().right - edge;
      if (beyond > 1) found.push(`cut by ${Math.round(beyond)} px: ${e.tagName} "${e.textContent.trim().slice(0, 40)}"`);
    }
    return found;
  }

  // Pieces of text of the figures below an element that are smaller than `text` pixels, by figure.
  function tiny(root, text) {
    const found = new Map();
    for (const e of root.querySelectorAll("svg text")) {
      const svg = e.ownerSVGElement;
      if (!shown(e) || !e.textContent.trim() || e.closest("mjx-container")) continue;
      const scale = svg.getBoundingClientRect().width / (svg.viewBox.baseVal.width || svg.getBoundingClientRect().width);
      const size = parseFloat(getComputedStyle(e).fontSize) * scale;
      if (size < text - 0.05) found.set(svg, Math.min(found.get(svg) ?? size, size));
    }
    return [...found].map(([svg, size]) => `${size.toFixed(1)} px in "${(svg.getAttribute("aria-label") || "").slice(0, 60)}"`);
  }

  // Words of a picture that reach over its edge, or over each other. Formulas and words that are turned have no
  // box of their own and are left out.
  function crowded(root) {
    const found = [];
    for (const svg of root.querySelectorAll("svg")) {
      if (svg.closest("mjx-container") || !shown(svg)) continue;
      const edge = svg.getBoundingClientRect(), name = (e) => e.textContent.trim().slice(0, 40);
      const texts = [...svg.querySelectorAll("text")].filter((e) => shown(e) && name(e) && !e.querySelector("tspan") && !/rotate/.test(e.outerHTML.slice(0, e.outerHTML.indexOf(">"))));
      const boxes = texts.map((e) => e.getBoundingClientRect());
      boxes.forEach((a, i) => {
        if (a.left < edge.left - 1 || a.right > edge.right + 1) found.push(`over the edge: ${name(texts[i])}`);
        for (const [j, b] of boxes.slice(0, i).entries()) {
          const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
          if (wide > 3 && tall > 4) found.push(`over each other: ${name(texts[j])}, ${name(texts[i])}`);
        }
      });
    }
    return found;
  }

  // Of an explorable: pieces of text smaller than `text` pixels, and controls smaller than `target`.
  function small(root, text, target) {
    const tiny = [...root.querySelectorAll(".lm-live svg text")].filter(shown).filter((e) => {
      const svg = e.ownerSVGElement, scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      return parseFloat(getComputedStyle(e).fontSize) * scale < text;
    });
    const narrow = [...root.querySelectorAll("button, select, [role=slider]")].map((e) => e.getBoundingClientRect());
    return [tiny.length, narrow.filter((b) => b.width && (b.width < target || b.height < target)).length];
  }

  return { contrast, names, wide, cut, tiny, crowded, small };
})();
