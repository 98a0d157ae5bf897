// Which rounds are shown, by product, strategy and period, and by which column of the users they are split. It stands in
// the address, so that a view can be sent to somebody, and goes along from view to view of a campaign.

import { address, field, h, problem } from "./dom.js";
import { campaign, get } from "./api.js";
import { catalogue, productText, strategyText, withId } from "./names.js";

const NAMES = ["product", "strategy", "since", "until", "segment"];
const LABELS = { product: "Product", strategy: "Strategy", since: "From", until: "To", segment: "Split users by" };
const DAY = 86400000;

// A period's two fields of dates.
export const period = (now) => ({ since: h("input", { type: "date", value: now.since ?? "" }), until: h("input", { type: "date", value: now.until ?? "" }) });

// As the service takes it: the last day of a period counts.
export function asked(now) {
  const end = new Date(`${now.until}T00:00:00Z`);
  return Number.isNaN(end.getTime()) ? now : { ...now, until: new Date(end.getTime() + DAY).toISOString().slice(0, 10) };
}

function asWritten() {
  const given = new URLSearchParams(location.hash.split("?")[1] ?? "");
  return Object.fromEntries(NAMES.filter((name) => given.get(name)).map((name) => [name, given.get(name)]));
}

// What the address asks for.
export const selection = () => asked(asWritten());

// Whether some rounds are left out.
export const selected = () => Object.keys(asWritten()).some((name) => name !== "segment");

// The address of another view of the campaign, with the same selection.
export const addressHere = (...parts) => {
  const query = new URLSearchParams(asWritten()).toString();
  return address(...parts) + (query ? `?${query}` : "");
};

// A link there; those that stay while the selection changes go along with it.
export const linkHere = (text, ...parts) => h("a", { href: addressHere(...parts), "data-here": JSON.stringify(parts) }, text);

function taken() {
  for (const link of document.querySelectorAll("a[data-here]")) link.href = addressHere(...JSON.parse(link.dataset.here));
}

// One line in a view that shows the whole campaign, whatever is chosen elsewhere.
export function notFiltered() {
  const now = asWritten(), said = { product: productText, strategy: strategyText };
  const chosen = Object.entries(now).map(([name, value]) => `${LABELS[name]}: ${said[name]?.(value) ?? value}`);
  return chosen.length ? h("p", { class: "hint unfiltered" }, `This view shows the whole campaign; what is chosen (${chosen.join("; ")}) counts in Overview, Rounds and Lift.`) : "";
}

const options = (items, chosen, none = "all") => [h("option", { value: "" }, none),
  ...items.map(({ id, name }) => h("option", { value: String(id), selected: String(id) === chosen }, withId(id, name)))];

// The bar of controls; every change is a new address, and `changed` draws the view again. `split` says whether the view
// shows users by a column of theirs.
export async function filters(name, changed, split = false) {
  const now = asWritten();
  const columns = split ? (await get(campaign(name))).segments.map((column) => ({ id: column })) : [];
  const [products, strategies] = [catalogue("products"), catalogue("strategies")];
  const controls = {
    product: h("select", {}, options(products, now.product)),
    strategy: h("select", {}, options(strategies, now.strategy)),
    segment: h("select", {}, options(columns, now.segment, "nothing")),
    ...period(now),
  };
  const empty = { product: !products.length, strategy: !strategies.length, segment: !columns.length };
  const shown = NAMES.filter((each) => !empty[each]);
  const said = h("div");
  for (const each of shown) {
    controls[each].addEventListener("change", () => {
      const chosen = { ...asWritten(), ...Object.fromEntries(shown.map((one) => [one, controls[one].value])) };
      const wanted = Object.fromEntries(Object.entries(chosen).filter(([, value]) => value));
      const query = new URLSearchParams(wanted).toString();
      history.replaceState(null, "", location.hash.split("?")[0] + (query ? `?${query}` : ""));
      taken();
      said.replaceChildren();
      changed().catch((error) => said.replaceChildren(problem(error)));
    });
  }
  return h("div", {}, h("form", { class: "filters", "aria-label": "Which rounds are shown" }, shown.map((each) => field(LABELS[each], controls[each]))), said);
}
