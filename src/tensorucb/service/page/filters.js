// Which rounds are shown, by product, strategy and period, and by which column of the users they are split. It stands in
// the address, so that a view can be sent to somebody.

import { field, h } from "./dom.js";
import { campaign, get } from "./api.js";
import { catalogue, withId } from "./names.js";

const NAMES = ["product", "strategy", "since", "until", "segment"];
const LABELS = { product: "Product", strategy: "Strategy", since: "From", until: "To", segment: "Split users by" };
const DAY = 86400000;

function asWritten() {
  const given = new URLSearchParams(location.hash.split("?")[1] ?? "");
  return Object.fromEntries(NAMES.filter((name) => given.get(name)).map((name) => [name, given.get(name)]));
}

// What the address asks for, as the service takes it: the last day of a period counts.
export function selection() {
  const asked = asWritten();
  const end = new Date(`${asked.until}T00:00:00Z`);
  if (!Number.isNaN(end.getTime())) asked.until = new Date(end.getTime() + DAY).toISOString().slice(0, 10);
  return asked;
}

// Whether some rounds are left out.
export const selected = () => Object.keys(asWritten()).some((name) => name !== "segment");

// The same selection in the address of another view.
export const withSelection = (address) => {
  const query = new URLSearchParams(asWritten()).toString();
  return query ? `${address}?${query}` : address;
};

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
    since: h("input", { type: "date", value: now.since ?? "" }),
    until: h("input", { type: "date", value: now.until ?? "" }),
  };
  const empty = { product: !products.length, strategy: !strategies.length, segment: !columns.length };
  const shown = NAMES.filter((each) => !empty[each]);
  for (const each of shown) {
    controls[each].addEventListener("change", () => {
      const wanted = Object.fromEntries(shown.map((one) => [one, controls[one].value]).filter(([, value]) => value));
      const query = new URLSearchParams(wanted).toString();
      history.replaceState(null, "", location.hash.split("?")[0] + (query ? `?${query}` : ""));
      changed();
    });
  }
  return h("form", { class: "filters", "aria-label": "Which rounds are shown" }, shown.map((each) => field(LABELS[each], controls[each])));
}
