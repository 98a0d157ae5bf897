// The picture of the network, on a canvas: places come from the service, zoom and choice happen here.

import { button, count, decimal, field, finder, h, named, num, percent } from "./dom.js";
import { campaign, get, watch } from "./api.js";
import { save } from "./charts.js";
import { called, productText } from "./names.js";
import { searchProducts, searchUsers } from "./next.js";

const MOST = 10000;
const MARGIN = 24, ABOVE = 76, BELOW = 56, SHARP = 2;  // of a picture to take home: pixels, and how many make one
const NEAR = 14;  // pixels within which a click means a user

export async function network(place, name, session) {
  const state = { data: null, scale: 1, x: 0.5, y: 0.5, chosen: null, product: null, round: null };
  const canvas = h("canvas", { tabindex: "0", role: "img" });
  const panel = h("div", { class: "panel", "aria-live": "polite" });
  const about = await get(campaign(name));

  const redraw = () => paint(canvas, state);
  async function load() {
    const data = await get(campaign(name, "network"), { product: state.product, round: state.round, limit: MOST });
    const chosen = state.chosen === null ? null : String(state.data.users[state.chosen]);
    Object.assign(state, { data, index: new Map(data.users.map((user, at) => [String(user), at])) });
    state.chosen = state.index.get(chosen) ?? null;
    canvas.setAttribute("aria-label", words(state.data));
    legend.replaceChildren(...key(state.data));
    redraw();
  }
  async function choose(user) {
    state.chosen = state.index.get(String(user)) ?? null;
    redraw();
    await tell(panel, name, user, state, session);
  }
  function zoom(factor, at = [0.5, 0.5]) {
    const scale = Math.min(60, Math.max(1, state.scale * factor)), size = canvas.getBoundingClientRect();
    const side = Math.min(size.width, size.height), dx = (at[0] - 0.5) * size.width / side, dy = (at[1] - 0.5) * size.height / side;
    state.x += dx / state.scale - dx / scale;
    state.y += dy / state.scale - dy / scale;
    state.scale = scale;
    redraw();
  }
  function move(dx, dy) { state.x += dx / state.scale; state.y += dy / state.scale; redraw(); }
  function whole() { Object.assign(state, { scale: 1, x: 0.5, y: 0.5 }); redraw(); }

  listen(canvas, state, { zoom, move, whole, choose });
  const legend = h("ul", { class: "legend" });
  const rounds = h("select", {}, h("option", { value: "" }, "The newest"));
  const product = about.products ? finder(searchProducts(name), (chosen) => { state.product = chosen; load().catch(fail); }) : null;
  product?.input.addEventListener("input", () => { if (!product.input.value) { state.product = null; load().catch(fail); } });
  const person = session.role === "read" ? null : finder(searchUsers(name), (chosen) => { centre(state, chosen); choose(chosen).catch(fail); });
  const fail = (error) => panel.replaceChildren(h("p", { role: "alert" }, error.message));
  rounds.addEventListener("change", () => { state.round = rounds.value || null; load().catch(fail); });

  const progress = await get(campaign(name, "progress"), { rounds: 200 });
  rounds.append(...progress.rounds.reverse().map((one) => h("option", { value: String(one.number) }, `Round ${one.number}, ${productText(one.product)} (${one.status})`)));
  place.append(
    h("div", { class: "picture" },
      h("div", {},
        h("div", { class: "canvas" }, canvas,
          h("div", { class: "zoom", role: "group", "aria-label": "Zoom" },
            named(button("+", () => zoom(1.6)), "Zoom in"), named(button("−", () => zoom(1 / 1.6)), "Zoom out"), named(button("⤢", whole), "Show everything"))),
        legend,
        h("p", { class: "downloads" }, named(button("PNG", () => save(picture(canvas, state, name), `${name} network`, "png"), "quiet"), "PNG: Network")),
        h("p", { class: "hint" }, "Users who influence each other stand close together. Wheel, buttons or + and − zoom, arrows or the mouse move, a click chooses a user.")),
      h("div", {},
        field("Users marked of round", rounds),
        product ? [field("Strongest edges for product", product.input, "Empty: from contacted users to those who responded."), product.list] : null,
        person ? [field("Find a user", person.input), person.list] : null,
        h("section", { "aria-label": "The chosen user" }, panel))));
  panel.append(h("h2", {}, "Choose a user"), h("p", {}, person ? "Click a point, or type a name or an id." : "Click a point."));
  await load();
  const resized = new ResizeObserver(redraw);
  resized.observe(canvas);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", redraw);
  const stop = watch(name, load);
  return () => { stop(); resized.disconnect(); dark.removeEventListener("change", redraw); };
}

function words(data) {
  const shown = data.users.length < data.users_in_all ? `the ${num(data.users.length)} best connected of ${num(data.users_in_all)} users` : count(data.users_in_all, "user");
  const marks = data.round === null ? "No round yet." : `Round ${data.round}: ${num(data.seeds.length)} contacted, ${num(data.held_out.length)} held out, ${num(data.reached.length)} responded.`;
  return `Picture of the network with ${shown}. ${marks}`;
}

const COLOURS = { seed: "--seed", reached: "--reached", held: "--seed" };

// What each kind of mark means; the last is that of all other users.
function keys(data) {
  const marks = [["seed", "contacted", data.seeds.length], ["reached", "responded", data.reached.length], ["held", "held out", data.held_out.length]];
  const shown = data.users.length < data.users_in_all ? `${num(data.users.length)} of ${num(data.users_in_all)} users, the best connected` : `${num(data.users_in_all)} users; larger: more followers`;
  return [...marks.filter(([, , number]) => number).map(([mark, text, number]) => [mark, `${num(number)} ${text}`]), ["", shown]];
}

const key = (data) => keys(data).map(([mark, text]) => h("li", {}, h("span", { class: `mark ${mark}` }), text));

function centre(state, user) {
  const at = state.index.get(String(user));
  if (at !== undefined) Object.assign(state, { x: state.data.x[at], y: state.data.y[at], scale: Math.max(state.scale, 2.5) });
}

// Where a place of the unit square lies on the canvas.
function projection(canvas, state) {
  const { width, height } = size(canvas), side = 0.94 * Math.min(width, height) * state.scale;
  return { width, height, side, at: (i) => [width / 2 + (state.data.x[i] - state.x) * side, height / 2 + (state.data.y[i] - state.y) * side] };
}

const size = (canvas) => canvas.getBoundingClientRect();

// The same picture on white, with what it shows above and what its colours mean below.
function picture(canvas, state, name) {
  const sheet = h("canvas", { class: "on-paper" });
  const { width, height } = size(canvas), look = getComputedStyle(canvas.parentNode.appendChild(sheet));
  const colour = (value) => look.getPropertyValue(value).trim(), font = look.fontFamily;
  sheet.width = (width + 2 * MARGIN) * SHARP;
  sheet.height = (height + ABOVE + BELOW) * SHARP;
  const brush = sheet.getContext("2d");
  brush.scale(SHARP, SHARP);
  brush.fillStyle = "#ffffff";
  brush.fillRect(0, 0, sheet.width, sheet.height);
  brush.save();
  brush.translate(MARGIN, ABOVE);
  brush.beginPath();
  brush.rect(0, 0, width, height);
  brush.clip();
  draw(brush, projection(canvas, state), state, colour);
  brush.restore();
  brush.fillStyle = colour("--ink");
  brush.font = `600 16px ${font}`;
  brush.fillText(name, MARGIN, MARGIN + 12);
  brush.font = `13px ${font}`;
  brush.fillText(words(state.data), MARGIN, MARGIN + 34, width);
  let x = MARGIN;
  for (const [mark, text] of keys(state.data)) {
    const y = ABOVE + height + BELOW / 2;
    brush.fillStyle = brush.strokeStyle = colour(COLOURS[mark] ?? "--dot");
    brush.lineWidth = 2;
    brush.beginPath();
    brush.arc(x + 6, y - 4, mark === "held" ? 5 : 6, 0, 2 * Math.PI);
    if (mark === "held") brush.stroke(); else brush.fill();
    brush.fillStyle = colour("--ink");
    brush.fillText(text, x + 18, y);
    x += 42 + brush.measureText(text).width;
  }
  const address = sheet.toDataURL("image/png");
  sheet.remove();
  return address;
}

function paint(canvas, state) {
  if (!state.data || !canvas.isConnected) return;
  const { width, height } = size(canvas), ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const brush = canvas.getContext("2d"), look = getComputedStyle(canvas);
  brush.setTransform(ratio, 0, 0, ratio, 0, 0);
  brush.clearRect(0, 0, width, height);
  draw(brush, projection(canvas, state), state, (name) => look.getPropertyValue(name).trim());
}

// Edges, then users, then marks; `colour` gives what the page calls a colour.
function draw(brush, { width, height, at }, state, colour) {
  const { data } = state;
  const zoomed = Math.sqrt(state.scale), dense = Math.max(0.55, Math.min(2.2, 36 / Math.sqrt(data.users.length)));
  const radius = (i) => (1.3 + 0.45 * Math.sqrt(Math.min(data.followers[i], 400))) * dense * zoomed;
  const { source, target, probability } = data.edges, top = probability ? Math.max(...probability.slice(0, 1), 1e-9) : 1;
  brush.strokeStyle = colour("--edge");
  for (let e = 0; e < source.length; e++) {
    const near = state.chosen !== null && (source[e] === state.chosen || target[e] === state.chosen);
    brush.globalAlpha = near ? 1 : probability ? 0.08 + 0.5 * (probability[e] / top) ** 2 : 0.35;
    brush.lineWidth = near ? 1.8 : 0.8;
    const [x0, y0] = at(source[e]), [x1, y1] = at(target[e]);
    brush.beginPath();
    brush.moveTo(x0, y0);
    brush.lineTo(x1, y1);
    brush.stroke();
  }
  const dots = (places, fill, more, alpha) => {
    brush.fillStyle = colour(fill);
    brush.globalAlpha = alpha;
    for (const i of places) {
      const [x, y] = at(i), r = radius(i) + more;
      if (x < -r || y < -r || x > width + r || y > height + r) continue;
      brush.beginPath();
      brush.arc(x, y, r, 0, 2 * Math.PI);
      brush.fill();
    }
  };
  dots(data.users.keys(), "--dot", 0, 0.5);
  dots(data.reached, "--reached", 1.2, 0.95);
  brush.lineWidth = 2;
  brush.strokeStyle = colour("--seed");
  for (const i of data.held_out) ring(brush, at(i), radius(i) + 3);
  dots(data.seeds, "--seed", 2.4, 1);
  if (state.chosen !== null) {
    brush.globalAlpha = 1;
    brush.strokeStyle = colour("--ink");
    ring(brush, at(state.chosen), radius(state.chosen) + 6);
  }
}

function ring(brush, [x, y], r) {
  brush.globalAlpha = 1;
  brush.beginPath();
  brush.arc(x, y, r, 0, 2 * Math.PI);
  brush.stroke();
}

function listen(canvas, state, { zoom, move, whole, choose }) {
  const spot = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top, box]; };
  canvas.addEventListener("wheel", (event) => {
    if (state.scale === 1 && event.deltaY > 0) return;  // everything is seen: the page may scroll
    event.preventDefault();
    const [x, y, box] = spot(event);
    zoom(Math.exp(-0.0015 * event.deltaY), [x / box.width, y / box.height]);
  }, { passive: false });
  const fingers = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => { fingers.set(event.pointerId, event); moved = 0; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const { side } = projection(canvas, { ...state, scale: 1 });
    if (fingers.size === 2) {
      const [other] = [...fingers.values()].filter((one) => one.pointerId !== event.pointerId);
      const span = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      const [x, y, box] = spot(event);
      zoom(span(event) / Math.max(1, span(before)), [x / box.width, y / box.height]);
    } else {
      move(-(event.clientX - before.clientX) / side, -(event.clientY - before.clientY) / side);
    }
    moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
    fingers.set(event.pointerId, event);
  });
  const end = (event) => { fingers.delete(event.pointerId); };
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerup", (event) => {
    end(event);
    if (moved > 6) return;
    const [x, y] = spot(event), index = nearest(canvas, state, x, y);
    if (index !== null) choose(state.data.users[index]);
  });
  const KEYS = { "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), 0: whole, ArrowLeft: () => move(-0.1, 0), ArrowRight: () => move(0.1, 0), ArrowUp: () => move(0, -0.1), ArrowDown: () => move(0, 0.1) };
  canvas.addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    KEYS[event.key]();
  });
}

function nearest(canvas, state, x, y) {
  const { at } = projection(canvas, state);
  let best = null, least = NEAR;
  for (let i = 0; i < state.data.users.length; i++) {
    const [px, py] = at(i), distance = Math.hypot(px - x, py - y);
    if (distance < least) { least = distance; best = i; }
  }
  return best;
}

async function tell(panel, name, user, state, session) {
  const at = state.index.get(String(user)), data = state.data;
  const marks = at === undefined ? [] : [["seeds", "contacted"], ["held_out", "held out"], ["reached", "responded"]].filter(([key]) => data[key].includes(at)).map(([, text]) => text);
  const known = at === undefined ? null : data.names?.[at];
  const parts = [h("h2", {}, known ?? String(user)), known ? h("p", { class: "hint" }, String(user)) : ""];
  if (marks.length) parts.push(h("p", {}, `In round ${data.round}: ${marks.join(", ")}.`));
  if (session.role === "read") {
    if (at !== undefined) parts.push(h("p", {}, `${count(data.followers[at], "follower")}.`));
    panel.replaceChildren(...parts);
    return;
  }
  const details = await get(campaign(name, "users", user), { product: state.product ?? data.product });
  const contacted = details.rounds;
  parts.push(h("p", {}, `${count(details.followers, "follower")}${details.group !== null ? `, group ${details.group}` : ""}.`));
  parts.push(h("p", {}, contacted.length ? `Contacted in ${count(contacted.length, "round")}, last in round ${contacted.at(-1)}.` : "Not contacted yet."));
  if (details.why_not !== null) parts.push(h("p", {}, h("strong", {}, "May not be contacted: "), `this user ${details.why_not}.`));
  if (details.expected !== null) parts.push(h("p", {}, `${decimal(details.expected)} responses expected if contacted alone.`));
  if (details.strongest.length) {
    parts.push(h("h3", {}, "Strongest followers"), h("ol", { class: "plain strong" }, details.strongest.map((one) => h("li", {}, h("span", {}, called(one.user, one.name)), h("b", {}, percent(one.probability))))));
  }
  panel.replaceChildren(...parts);
}
