(function (box) {
  var data = JSON.parse(box.querySelector("script[type='application/json']").textContent);
  var chip = data.start.slice(), column = data.column;
  function at(op) { return [chip[op] * column + data.place[op][0], data.place[op][1]]; }
  function each(name, action) { box.querySelectorAll("[data-" + name + "]").forEach(action); }
  function show() {
    var row = chip.reduce(function (sum, c) { return sum * data.chips + c; }, 0);
    var faults = data.rows[row].map(function (i) { return data.faults[i]; });
    function blamed(name) { return faults.some(function (f) { return f[1].length === 1 && f[1][0] === name; }); }
    each("op", function (g) {
      var op = Number(g.dataset.op), p = at(op);
      g.setAttribute("transform", "translate(" + p[0] + " " + p[1] + ")");
      g.setAttribute("aria-label", data.ops[op] + " on chip " + chip[op]);
    });
    each("edge", function (line) {
      var e = data.edges[Number(line.dataset.edge)], a = at(e[0]), b = at(e[1]);
      var x = b[0] - a[0], y = b[1] - a[1], far = Math.max(Math.hypot(x, y), 1);
      line.setAttribute("x1", a[0] + x * data.radius / far);
      line.setAttribute("y1", a[1] + y * data.radius / far);
      line.setAttribute("x2", b[0] - x * (data.radius + 5) / far);
      line.setAttribute("y2", b[1] - y * (data.radius + 5) / far);
      var bad = faults.some(function (f) { return f[1][0] === data.ops[e[0]] && f[1][1] === data.ops[e[1]]; });
      line.setAttribute("stroke", bad ? data.bad : data.ink);
      line.setAttribute("stroke-width", bad ? 3 : 1.4);
      line.setAttribute("marker-end", "url(#lm-rules-" + (bad ? "bad" : "ink") + ")");
    });
    each("chip", function (rect) {
      var bad = blamed("chip " + rect.dataset.chip);
      rect.setAttribute("stroke", bad ? data.bad : "#B8C4CE");
      rect.setAttribute("stroke-width", bad ? 3 : 1);
    });
    each("rule", function (item) {
      var mine = faults.filter(function (f) { return f[0].indexOf(item.dataset.rule) === 0; });
      var where = mine.map(function (f) {
        return (f[1].length === 2 ? f[1].join(" \u2192 ") + " " : f[1].length ? f[1].join(", ") + " " : "") + f[2];
      });
      var known = item.dataset.rule !== "Eq. 5" || data.seconds[row] !== null;
      item.querySelector("b").textContent = mine.length ? "broken" : known ? "kept" : "not asked";
      item.querySelector("b").style.color = mine.length ? data.bad : known ? data.good : "inherit";
      item.querySelector("i").textContent = where.join("; ");
    });
    var time = data.seconds[row];
    box.querySelector("output").textContent = (faults.length ? "Not valid." : "Valid.") +
      (time === null ? "" : " The slowest chip takes " + (1e6 * time).toFixed(2) + " \u00b5s.");
  }
  function move(op) { chip[op] = (chip[op] + 1) % data.chips; show(); }
  each("op", function (g) {
    g.addEventListener("click", function () { move(Number(g.dataset.op)); });
    g.addEventListener("keydown", function (event) {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); move(Number(g.dataset.op)); }
    });
  });
  show();
})(document.getElementById("lm-rules"));
