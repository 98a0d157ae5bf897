// Elements, numbers and words. Text always becomes a text node: ids and names may hold markup.

import { inPageWords } from "./words.js";

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

let labels = 0;

// A labelled control; the hint is read out with it.
export function field(label, control, hint) {
  const id = `field-${++labels}`;
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  const text = h("label", { for: id }, label);
  const below = hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null;
  const box = control.type === "checkbox";
  return h("div", { class: box ? "field check" : "field" }, box ? [control, text] : [text, control], below);
}

export const button = (text, onclick, kind = "") => h("button", { type: "button", class: kind, onclick }, text);

// A control whose text alone says too little.
export const named = (control, label) => { control.setAttribute("aria-label", label); control.title = label; return control; };

export const link = (text, ...parts) => h("a", { href: address(...parts) }, text);

// A campaign in a table: a long name is cut, and shown whole on hover.
export const campaignLink = (name) => h("span", { class: "id", title: name }, link(name, "c", name));

export const address = (...parts) => `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;

export function section(title, ...blocks) {
  const id = `section-${++labels}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...blocks);
}

// A table in a frame that scrolls by itself; `numeric` holds the numbers of the columns that are set right.
export function table(label, columns, rows, numeric = []) {
  const mark = (place) => (numeric.includes(place) ? "n" : null);
  const head = columns.map((name, place) => h("th", { scope: "col", class: mark(place) }, name));
  const body = rows.map((cells) =>
    h("tr", {}, cells.map((cell, place) =>
      h(place ? "td" : "th", { scope: place ? null : "row", class: mark(place) }, ...[cell].flat()))));
  return h("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

// A long list of rows, some at a time; `update` puts other rows in, and shows as many as before.
export function paged(label, columns, rows, numeric, size = 25) {
  const place = h("div");
  let shown = size;
  const update = (fresh, names = columns) => {
    rows = fresh;
    columns = names;
    place.replaceChildren(table(label, columns, rows.slice(0, shown), numeric));
    if (shown < rows.length) {
      place.append(button(`Show ${count(Math.min(size, rows.length - shown), "more row")} of ${num(rows.length)}`,
        () => { shown += size; update(rows); place.querySelector(".scroll").focus({ preventScroll: true }); }));
    }
  };
  update(rows);
  return { place, update };
}

// What somebody is at stays the same for them when its surroundings are drawn again.
export function keepingFocus(place, draw) {
  const mark = (element) => element.getAttribute("href") ?? element.getAttribute("aria-label") ?? element.textContent;
  const at = place.contains(document.activeElement) ? document.activeElement : null;
  const [tag, known] = at ? [at.tagName, mark(at)] : [];
  draw();
  if (!at || at.isConnected) return;
  [...place.querySelectorAll(tag)].find((each) => mark(each) === known)?.focus({ preventScroll: true });
}

const WIDE = 7, WIDEST = 10;  // letters of a number that fit in the largest size, and in the next one
const sizeOf = (value) => (String(value).length > WIDEST ? "longest" : String(value).length > WIDE ? "long" : null);

// Numbers in large letters, each with what it counts.
export const numbers = (label, entries) => h("ul", { class: "numbers", "aria-label": label },
  entries.map(([value, what, look]) => h("li", { class: look }, h("strong", { class: sizeOf(value) }, value), h("span", {}, what))));

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const two = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const money = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

export const num = (value) => whole.format(value);
export const decimal = (value) => (Math.abs(value) < 1000 ? one : whole).format(value);
export const interval = ({ low, high }) => `90\u00a0%: ${num(Math.floor(low))} to ${num(Math.ceil(high))}`;
export const fine = (value) => two.format(value).replace("-", "−");
export const cost = (value) => money.format(value);
export const moneyInterval = ({ low, high }) => `90\u00a0%: ${cost(low)} to ${cost(high)}`;
export const count = (value, what) =>
  `${num(value)} ${value === 1 ? what : what.endsWith("y") ? `${what.slice(0, -1)}ies` : `${what}s`}`;
export const percent = (share) => (share === null ? "–" : `${two.format(100 * share)} %`);
export const points = (share) => `${share > 0 ? "+" : ""}${fine(100 * share)}`;
export const reachText = (reach) =>
  reach ? `${decimal(reach.mean)} (${num(Math.floor(reach.low))}\u00a0–\u2060\u00a0${num(Math.ceil(reach.high))})` : "–";

// Days are those of the campaign's time zone, wherever its page is read; where there is no campaign, the reader's.
const HERE = new Intl.DateTimeFormat().resolvedOptions().timeZone;
let zone, date, moment;
export function useZone(wanted = HERE) {
  const format = (options) => new Intl.DateTimeFormat("en", { ...options, timeZone: wanted });
  try {
    [zone, date, moment] = [wanted, format({ dateStyle: "medium" }), format({ dateStyle: "medium", timeStyle: "short", hour12: false })];
  } catch {
    if (wanted !== "UTC") useZone("UTC");  // the browser knows fewer zones than the service
  }
}
useZone();
export const day = (seconds) => date.format(new Date(1000 * seconds));
export const when = (seconds) => moment.format(new Date(1000 * seconds)) + (zone === HERE ? "" : ` (${zone})`);

// Ids are numbers or texts, as the campaign has them; what is typed is always text.
export const asId = (text, sample) =>
  typeof sample === "number" && /^-?\d+$/.test(text.trim()) ? Number(text) : text.trim();

export const ids = (text, sample) =>
  text.split(/[\n,;]+/).map((part) => part.trim()).filter(Boolean).map((part) => asId(part, sample));

export function announce(text) {
  const place = document.getElementById("said");
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = text; });
}

// What went wrong, where it happened; `labels` are those of the fields that were sent.
export function problem(error, labels) {
  return h("div", { class: "note wrong", role: "alert" },
    h("p", {}, h("strong", {}, error.title || "That did not work"), ": ", inPageWords(error.parts || [error.message], labels)),
    error.request ? h("p", { class: "hint" }, `Request ${error.request}`) : null);
}

export const note = (...content) => h("div", { class: "note" }, ...content);

// What was done; whoever reads the page hears it.
export function done(place, ...lines) {
  const said = h("div", { class: "note good", tabindex: "-1" }, lines.filter(Boolean).map((line) => h("p", {}, line)));
  place.replaceChildren(said);
  said.focus();
}

// Runs work for a button: it shows that it is busy, and errors appear beside it.
export async function busy(control, place, work, labels) {
  if (control.getAttribute("aria-disabled") === "true") return;
  const words = control.textContent;
  control.setAttribute("aria-disabled", "true");
  control.textContent = "Working …";
  place.replaceChildren();
  try {
    await work(place);
  } catch (error) {
    place.replaceChildren(problem(error, labels));
  } finally {
    control.removeAttribute("aria-disabled");
    control.textContent = words;
  }
}

// A form whose button is busy while `work` runs; what came of it, or went wrong, is said below.
export function form(action, work, parts, { look = "primary", labels } = {}) {
  const submit = h("button", { class: look }, action), said = h("div");
  const made = h("form", {}, parts, h("p", { class: "actions" }, submit), said);
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(submit, said, work, labels);
  });
  return made;
}

// Asks somebody to type the name of what will be lost; says whether they did.
export function confirmed(title, text, name, action) {
  const typed = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const go = h("button", { class: "danger", disabled: true }, action);
  typed.addEventListener("input", () => { go.disabled = typed.value.trim() !== name.trim(); });
  const dialog = h("dialog", { "aria-label": title });
  const asked = h("form", { method: "dialog" }, h("h2", {}, title), h("p", {}, text),
    field(["Type ", h("span", { class: "typed" }, name), " to confirm"], typed),
    h("p", { class: "actions" }, go, button("Keep everything", () => dialog.close())));
  asked.addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close("yes");
  });
  dialog.append(asked);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
  });
}

let lists = 0;

// A field that proposes what the service finds for the letters typed so far: entries with an id and perhaps a name. What
// is written there is the name, as long as it is no other's.
export function finder(search, onchoose, placeholder = "") {
  const list = h("datalist", { id: `found-${++lists}` });
  const input = h("input", { type: "text", list: list.id, autocomplete: "off", spellcheck: "false", placeholder });
  let asked = 0;
  const known = new Map();
  const look = async () => {
    const turn = ++asked;
    const entries = await search(input.value.trim()).catch(() => []);
    if (turn !== asked) return;
    const names = entries.map(({ name }) => name);
    const written = entries.map(({ id, name }) => (!name ? String(id) : names.indexOf(name) === names.lastIndexOf(name) ? name : `${name} (${id})`));
    entries.forEach(({ id }, place) => known.set(written[place], id));
    entries.forEach(({ id }) => known.set(String(id), id));  // an id that looks like a name counts as the id
    list.replaceChildren(...entries.map(({ id, name }, place) => h("option", { value: written[place], label: name ? String(id) : null })));
  };
  input.addEventListener("focus", look, { once: true });
  input.addEventListener("input", look);
  if (onchoose) input.addEventListener("change", () => { if (input.value.trim()) onchoose(chosen()); });
  const chosen = () => known.get(input.value.trim()) ?? input.value.trim();
  return { input, list, chosen, look };
}
