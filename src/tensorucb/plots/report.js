(function () {
  "use strict";
  var themes = JSON.parse(document.getElementById("themes").textContent);
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function draw() {
    document.querySelectorAll(".chart").forEach(function (place) {
      var spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
      spec.config = Object.assign({}, themes[dark.matches ? "dark" : "light"], { background: "transparent", padding: 4 });
      if (place.clientWidth < 520) {
        narrow(spec);
      }
      var actions = { export: true, source: false, compiled: false, editor: false };
      vegaEmbed(place, spec, { mode: "vega-lite", renderer: "svg", actions: actions }).catch(function (error) {
        place.textContent = "This figure could not be drawn: " + error.message;
      });
    });
  }
  function narrow(spec) {
    // No room for names beside the lines: a legend below instead, and fewer ticks.
    spec.config.title = Object.assign({}, spec.config.title, { fontSize: 14, subtitleFontSize: 11 });
    spec.config.legend = Object.assign({}, spec.config.legend, { columns: 2, labelFontSize: 11 });
    if ((spec.layer || []).some(function (layer) { return layer.name === "end-labels"; })) {
      spec.layer = spec.layer.filter(function (layer) { return layer.name !== "end-labels"; });
      spec.layer.forEach(function (layer) {
        ["color", "strokeDash"].forEach(function (channel) {
          if (layer.encoding[channel]) { layer.encoding[channel].legend = { orient: "bottom", title: null, symbolType: "stroke", symbolStrokeWidth: 3, symbolOpacity: 1 }; }
        });
        layer.encoding.x.axis = Object.assign({}, layer.encoding.x.axis, { tickCount: 4 });
      });
    } else if (spec.encoding && spec.encoding.color && spec.encoding.color.legend) {
      Object.assign(spec.encoding.color.legend, { orient: "bottom", columns: 1 });
    }
    if (spec.title) {
      spec.title.text = wrap(spec.title.text, 34);
      if (spec.title.subtitle) { spec.title.subtitle = wrap(spec.title.subtitle, 46); }
    }
  }
  function wrap(text, limit) {
    if (Array.isArray(text)) { return text; }
    return text.split(" ").reduce(function (lines, word) {
      var last = lines[lines.length - 1];
      if (last && (last + " " + word).length <= limit) { lines[lines.length - 1] = last + " " + word; } else { lines.push(word); }
      return lines;
    }, []);
  }
  draw();
  dark.addEventListener("change", draw);
})();
