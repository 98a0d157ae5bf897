// What products, strategies and users are called: the name first, the id in the second place.

import { h, useZone } from "./dom.js";
import { campaign, get } from "./api.js";

const PAGE = 500, MOST_PAGES = 20;
const known = { of: null, products: new Map(), strategies: new Map() };

async function all(name, kind) {
  const items = [];
  let after = null;
  for (let turn = 0; turn < MOST_PAGES && (turn === 0 || after); turn++) {
    const page = await get(campaign(name, kind), { limit: PAGE, after });
    items.push(...page.items);
    after = page.next;
  }
  return items;
}

// Reads the catalogues and the time zone of a campaign, once for as long as somebody looks at it.
export async function learnNames(name) {
  if (known.of === name) return;
  const [products, strategies, { settings }] = await Promise.all([all(name, "products"), all(name, "strategies"), get(campaign(name))]);
  useZone(settings.timezone ?? "UTC");
  const byId = (items) => new Map(items.map((item) => [String(item.id), item]));
  Object.assign(known, { of: name, products: byId(products), strategies: byId(strategies) });
}

export const forgetNames = () => { known.of = null; };

export const catalogue = (kind) => [...known[kind].values()];

const text = (items, id, none) => (id === null || id === undefined ? none : items.get(String(id))?.name ?? String(id));
export const productText = (id) => text(known.products, id, "by features");
export const strategyText = (id) => text(known.strategies, id, "–");

// A name in a table with its id behind it; long ones are cut, and shown whole on hover.
export function called(id, name) {
  const cut = (value, look) => h("span", { class: look, title: String(value).length > 24 ? String(value) : null }, String(value));
  return name ? [cut(name, "id"), " ", cut(id, "id second")] : cut(id, "id");
}

export const product = (id) => (id === null || id === undefined ? "by features" : called(id, known.products.get(String(id))?.name));
export const strategy = (id) => (id === null || id === undefined ? "–" : called(id, known.strategies.get(String(id))?.name));

// In a sentence, an option or a label.
export const withId = (id, name) => (name ? `${name} (${id})` : String(id));
