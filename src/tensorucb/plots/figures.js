// What a figure needs on a phone; shared by reports and by the service's page.
function narrow(spec, place) {
  // No room for names beside the lines: a list below instead, and fewer ticks.
  spec.config.title = Object.assign({}, spec.config.title, { fontSize: 14, subtitleFontSize: 11 });
  spec.config.legend = Object.assign({}, spec.config.legend, { columns: 1, labelFontSize: 11 });
  var layers = spec.layer || [], names = [];
  layers.forEach(function (layer) {
    if (/^end-labels/.test(layer.name)) { names = names.concat(layer.data.values); }
  });
  if (names.length) {
    // Leaders stay out as well; whiskers keep their place at the right.
    spec.layer = layers.filter(function (layer) { return !/^end-/.test(layer.name); });
    place.after(list(names.sort(function (a, b) { return a.height - b.height; })));
  }
  var parts = [spec].concat(spec.layer || []);
  // All layers break the title of an axis in the same way, or their titles would be joined.
  var named = parts.some(function (part) { return part.encoding && part.encoding.y && Array.isArray(part.encoding.y.sort); });
  parts.forEach(function (part) {
    var encoding = part.encoding || {}, x = encoding.x || {}, y = encoding.y || {};
    if (x.field && x.axis !== null) {
      if (x.title) { x.title = wrap(x.title, named ? 22 : 34); }
      x.axis = Object.assign({}, x.axis, { tickCount: 4 });
    }
    if (y.field && y.axis !== null) {
      if (y.title) { y.title = wrap(y.title, 50); }
      y.axis = Object.assign({}, y.axis, { labelFontSize: named ? 10.5 : 11 });
      if (Array.isArray(y.sort)) { y.axis.labelExpr = lines(y.sort) + "[datum.label]"; }
    }
    if (encoding.color && encoding.color.legend) { Object.assign(encoding.color.legend, { orient: "bottom", columns: 1 }); }
  });
  if (spec.title) {
    spec.title.text = wrap(spec.title.text, 40);
    if (spec.title.subtitle) { spec.title.subtitle = wrap(spec.title.subtitle, 54); }
  }
}
function lines(names) {
  // As an expression: each name with the lines that it is broken into; there is room for two.
  var broken = {};
  names.forEach(function (name) {
    var parts = wrap(name, 22);
    broken[name] = parts.length > 2 ? [parts[0], parts[1] + " …"] : parts;
  });
  return JSON.stringify(broken);
}
function list(names) {
  var places = document.createElement("ul");
  places.className = "names";
  names.forEach(function (name) {
    var item = document.createElement("li"), line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    var stroke = document.createElementNS("http://www.w3.org/2000/svg", "line");
    line.setAttribute("viewBox", "0 0 26 6");
    line.setAttribute("aria-hidden", "true");
    line.setAttribute("class", name.style);
    stroke.setAttribute("x1", 0);
    stroke.setAttribute("x2", 26);
    stroke.setAttribute("y1", 3);
    stroke.setAttribute("y2", 3);
    stroke.setAttribute("stroke-dasharray", name.dash[1] ? name.dash.join(" ") : "none");
    if (name.colour) { stroke.style.stroke = name.colour; }
    line.append(stroke);
    item.append(line, name.text);
    places.append(item);
  });
  return places;
}
function wrap(text, limit) {
  if (Array.isArray(text)) { return text.flatMap(function (line) { return wrap(line, limit); }); }
  return text.split(" ").reduce(function (lines, word) {
    var last = lines[lines.length - 1];
    if (last && (last + " " + word).length <= limit) { lines[lines.length - 1] = last + " " + word; } else { lines.push(word); }
    return lines;
  }, []);
}
