// The library's figures, drawn by vega-embed from the bundle of the installed wheel.

import { h, section } from "./dom.js";
import { get } from "./api.js";

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const phone = window.matchMedia("(max-width: 600px)");
const NARROW = 480, PATIENCE = 300;
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

// A figure for a Vega-Lite document or for the address of one; `draw` fetches and draws it again.
export function chart(source, label) {
  const place = h("div", { class: "chart", "data-state": "waiting" }, label);
  const figure = h("figure", {}, h("figcaption"), place);
  let document = typeof source === "string" ? null : source, etag = "";
  const draw = async (fresh = true) => {
    if (typeof source === "string" && (fresh || !document)) document = await get(source);
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
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", said);
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
