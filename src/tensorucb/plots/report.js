(function () {
  "use strict";
  var themes = JSON.parse(document.getElementById("themes").textContent);
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var phone = window.matchMedia("(max-width: 600px)");
  document.querySelectorAll(".chart").forEach(function (place) { place.dataset.words = place.textContent; });
  function draw() {
    document.querySelectorAll(".chart").forEach(function (place) {
      var spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
      spec.config = Object.assign({}, themes[dark.matches ? "dark" : "light"], { background: "transparent", padding: 4, aria: false });
      if (place.nextSibling && place.nextSibling.className === "names") { place.nextSibling.remove(); }
      if (phone.matches) { narrow(spec, place); }
      var actions = phone.matches ? false : { export: true, source: false, compiled: false, editor: false };
      vegaEmbed(place, spec, { mode: "vega-lite", renderer: "svg", actions: actions }).then(function () {
        // One picture with one description, rather than an announcement of every point.
        var picture = place.querySelector("svg.marks");
        picture.setAttribute("role", "img");
        picture.setAttribute("aria-label", place.dataset.words);
      }).catch(function (error) {
        place.textContent = "This figure could not be drawn: " + error.message;
      });
    });
  }
  draw();
  dark.addEventListener("change", draw);
  phone.addEventListener("change", draw);
})();
