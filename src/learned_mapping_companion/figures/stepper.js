(function (box) {
  var frames = box.querySelectorAll("[data-frame]"), at = 0;
  function show(i) {
    at = Math.max(0, Math.min(frames.length - 1, i));
    frames.forEach(function (frame, k) { frame.hidden = k !== at; });
    box.querySelector("output").textContent = box.dataset.noun + " " + (at + 1) + " of " + frames.length;
    box.querySelector("[data-go='-1']").setAttribute("aria-disabled", at === 0);
    box.querySelector("[data-go='1']").setAttribute("aria-disabled", at === frames.length - 1);
  }
  box.querySelectorAll("[data-go]").forEach(function (button) {
    button.addEventListener("click", function () { show(at + Number(button.dataset.go)); });
  });
  box.querySelector("nav").hidden = false;
  show(0);
})(document.getElementById("NAME"));
