// The library's figures, drawn by vega-embed from the bundle of the installed wheel.

import { button, h, named, section } from "./dom.js";
import { get } from "./api.js";

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const phone = window.matchMedia("(max-width: 600px)");
const NARROW = 480, PATIENCE = 300, PICTURE = 760;  // pixels, frames, pixels
const BESIDE = 150, BESIDE_NARROW = 110, BETWEEN = 24;  // pixels for the names beside parts of a figure, and between the parts
let loading = null;
const drawn = new Map();

// The bundle is large and only pages with figures need it.
function library() {
  loading ??= Promise.all([
    new Promise((resolve, reject) => {
      const script = h("script", { src: new URL("./vega.js", import.meta.url).href, onload: resolve, onerror: () => reject(new Error("the figures' script could not be loaded")) });
      document.head.append(script);
    }),
    fetch(new URL("./themes.json", import.meta.url)).then((response) => response.json()),
  ]);
  return loading;
}

// A figure for a Vega-Lite document or for the address of one; `draw` fetches and draws it again. `query` says which
// rounds it is about.
export function chart(source, label, query = () => ({})) {
  const place = h("div", { class: "chart", "data-state": "waiting" }, label);
  const figure = h("figure", {}, h("figcaption"), place, downloads(label, () => document));
  let document = typeof source === "string" ? null : source, etag = "";
  const draw = async (fresh = true) => {
    if (typeof source === "string" && (fresh || !document)) document = await get(source, query());
    const text = JSON.stringify(document);
    if (fresh && text === etag) return;
    etag = text;
    await paint(place, JSON.parse(text));
  };
  drawn.set(figure, () => draw(false));
  const ready = draw().catch((error) => {
    place.textContent = `This figure could not be drawn: ${error.message}`;
    place.dataset.state = "failed";
  });
  return { figure, draw, ready };
}

// A file for whoever looks at the page, named after what it shows.
export function save(address, label, ending) {
  const file = label.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  h("a", { href: address, download: `${file}.${ending}` }).click();
}

// The picture, and the numbers that it shows, as files.
function downloads(label, document) {
  const image = async () => { if (document()) save(await picture(structuredClone(document())), label, "png"); };
  const rows = () => {
    const address = URL.createObjectURL(new Blob([csv(values(document()))], { type: "text/csv" }));
    save(address, label, "csv");
    URL.revokeObjectURL(address);
  };
  return h("p", { class: "downloads" }, named(button("PNG", image, "quiet"), `PNG: ${label}`), named(button("CSV", rows, "quiet"), `CSV: ${label}`));
}

// For slides and mails a figure needs its title, and dark letters on white wherever it is drawn.
async function picture(spec) {
  const [, themes] = await library();
  spec.config = { ...themes.light, background: "#ffffff", padding: 20 };
  if (spec.width === "container") Object.assign(spec, { width: PICTURE, autosize: { type: "pad", contains: "content" } });
  const result = await window.vegaEmbed(h("div"), spec, { mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, tooltip: false });
  const address = await result.view.toImageURL("png", 2);
  result.finalize();
  return address;
}

// Parts side by side share the width; on a phone they stand below each other, each with the names.
function arrange(spec, width) {
  const parts = spec.hconcat;
  const below = width < NARROW, places = parts[0].layer.map((layer) => layer.encoding.y).find(Boolean);
  const longest = Math.max(...places.sort.map((name) => name.length));
  const names = Math.min(below ? BESIDE_NARROW : BESIDE, 7 * longest) + BETWEEN;
  const each = below ? width - names - BETWEEN : (width - names) / parts.length - BETWEEN;
  for (const part of parts) part.width = Math.max(80, Math.floor(each));
  if (!below) return;
  const axis = { ...places.axis, labelLimit: BESIDE_NARROW };
  for (const { layer } of parts) for (const { encoding } of layer) if (encoding.y) encoding.y.axis = axis;
  spec.vconcat = parts;
  delete spec.hconcat;
}

// The longest table among the layers of a figure: the others are lines and labels.
function values(spec) {
  const tables = [spec, ...(spec?.layer ?? [])].map((part) => part?.data?.values ?? []);
  return tables.reduce((longest, each) => (each.length > longest.length ? each : longest), []);
}

function csv(rows) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (value) => {
    // A text that a spreadsheet would take for a formula gets an apostrophe.
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((line) => line.map(cell).join(",")).join("\r\n");
}

// A figure in a frame of its own, with words on how to read it.
export const card = (title, figure, about) => section(title, figure,
  about ? h("details", {}, h("summary", {}, "How to read this"), h("p", {}, about)) : null);

// The box that a figure shows under the pointer hangs on the page itself.
export const hideNumbers = () => document.getElementById("vg-tooltip-element")?.remove();

async function paint(place, spec) {
  const [, themes] = await library();
  // The width is that of the place, which must be on the page for that; whoever left the view wants no figure.
  for (let frames = 0; !place.isConnected; frames++) {
    if (frames === PATIENCE) return;
    await new Promise(requestAnimationFrame);
  }
  const said = spec.description || spec.title?.text || "";
  const caption = [spec.title?.subtitle ?? ""].flat().join(" ");
  place.parentNode.querySelector("figcaption").textContent = caption;
  delete spec.title;  // the page has a heading there
  delete spec.description;
  delete spec.$schema;
  spec.config = { ...themes[dark.matches ? "dark" : "light"], background: "transparent", padding: 4, aria: false };
  if (place.nextSibling?.className === "names") place.nextSibling.remove();
  if (spec.hconcat) arrange(spec, place.clientWidth);
  if (place.clientWidth < NARROW) {
    if (spec.layer) spec.layer = spec.layer.filter((layer) => layer.name !== "values");
    window.narrowFigure(spec, place);
  }
  // The page must not jump while a figure is drawn again, nor a box of numbers stay behind.
  place.style.minHeight = `${place.offsetHeight}px`;
  place.view?.finalize();
  hideNumbers();
  const result = await window.vegaEmbed(place, spec, {
    mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true },
  });
  const picture = place.querySelector("svg.marks");
  // One description for all of it: the parts of the drawing have none of their own.
  picture.setAttribute("aria-hidden", "true");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", said);
  place.style.minHeight = "";
  place.dataset.state = "drawn";
  place.view = result.view;
}

function again() {
  for (const [figure, redraw] of drawn) {
    if (figure.isConnected) redraw(); else drawn.delete(figure);
  }
}
dark.addEventListener("change", again);
phone.addEventListener("change", again);
