// The next round: the question, the proposal with its reasons, one user changed for another, and the acceptance.

import { address, announce, asId, button, busy, cost, count, decimal, field, finder, form, h, ids, interval, num, numbers, productText, section } from "./dom.js";
import { campaign, get, newKey, post } from "./api.js";
import { reasonTable } from "./rounds.js";

export async function next(place, name) {
  const [about, products, strategies, someone] = await Promise.all([
    get(campaign(name)), get(campaign(name, "products"), { limit: 1 }), get(campaign(name, "strategies"), { limit: 500 }),
    get(campaign(name, "users"), { limit: 1 })]);
  const world = { name, about, sample: idOf(someone.items[0]), product: idOf(products.items[0]), strategies: strategies.items.map(idOf) };
  const proposal = h("div");
  place.append(question(world, proposal), proposal);
}

// Lists hold ids, or entries that have one.
const idOf = (entry) => (entry !== null && typeof entry === "object" ? entry.id : entry);

export const searchUsers = (name) => async (text) => (await get(campaign(name, "users"), { search: text, limit: 20 })).items.map(idOf);
export const searchProducts = (name) => async (text) => (await get(campaign(name, "products"), { search: text, limit: 50 })).items.map(idOf);

const LABELS = {
  product: "Product", k: "Users to contact", strategies: "Strategies to choose from", per_user: "Each user gets the best one for them",
  holdout: "Hold out, %", cooldown: "Leave out users contacted within", deadline: "Close by itself after", budget: "Budget",
  quotas: "Most users of each group", minima: "Fewest users of each group", exclude: "Never these users", must_include: "Always these", candidates: "Only among these",
};

function question(world, place) {
  const { name, about } = world, defaults = about.settings.ask || {};
  const product = about.products ? finder(searchProducts(name)) : null;
  if (product) { product.input.required = true; product.input.value = world.product === undefined ? "" : String(world.product); product.look(); }
  const k = h("input", { type: "number", min: "1", max: String(about.users), step: "1", value: String(defaults.k ?? Math.min(10, about.users)), inputmode: "numeric", required: true });
  const offered = world.strategies.map((strategy) => ({ strategy, box: h("input", { type: "checkbox", checked: true }) }));
  const perUser = h("input", { type: "checkbox" });
  const text = (placeholder = "") => h("input", { type: "text", autocomplete: "off", placeholder });
  const holdout = h("input", { type: "number", min: "0", max: "50", step: "1", inputmode: "numeric", placeholder: defaults.holdout ? String(Math.round(100 * defaults.holdout)) : "0" });
  const budget = h("input", { type: "number", min: "0", step: "any", inputmode: "decimal" });
  const [quota, minimum] = [1, 2].map(() => h("input", { type: "number", min: "0", step: "1", inputmode: "numeric" }));
  const [cooldown, deadline] = [text("14d"), text("7d")];
  const [exclude, include, candidates] = [1, 2, 3].map(() => h("textarea", { rows: "2", spellcheck: "false" }));

  const body = () => {
    const asked = { k: Number(k.value) };
    if (product) asked.product = product.chosen();
    const chosen = offered.filter(({ box }) => box.checked).map(({ strategy }) => strategy);
    if (offered.length && chosen.length) Object.assign(asked, { strategies: chosen, per_user: perUser.checked });
    if (holdout.value) asked.holdout = Number(holdout.value) / 100;
    if (budget.value) asked.budget = Number(budget.value);
    if (quota.value) asked.quotas = Number(quota.value);
    if (minimum.value) asked.minima = Number(minimum.value);
    for (const [key, control] of [["cooldown", cooldown], ["deadline", deadline]]) if (control.value.trim()) asked[key] = control.value.trim();
    for (const [key, control] of [["exclude", exclude], ["must_include", include], ["candidates", candidates]]) {
      const listed = ids(control.value, world.sample);
      if (listed.length) asked[key] = listed;
    }
    return asked;
  };

  const parts = [
    h("div", { class: "grid" },
      product ? [field(LABELS.product, product.input, `One of ${num(about.products)}; type to search.`), product.list] : h("p", {}, "This campaign has no products: every round is about the same thing."),
      field(LABELS.k, k)),
    offered.length ? h("fieldset", {}, h("legend", {}, LABELS.strategies),
      h("div", { class: "boxes" }, offered.map(({ strategy, box }) => field(String(strategy), box))),
      field(`${LABELS.per_user} (otherwise all get the same)`, perUser)) : null,
    h("details", {}, h("summary", {}, "Limits: budget, hold-out, rest between contacts, lists of users"),
      h("div", { class: "grid" },
        field(LABELS.holdout, holdout, "Drawn at random, not contacted: measures what contact changes."),
        field(LABELS.cooldown, cooldown),
        field(LABELS.deadline, deadline),
        about.costs ? field(LABELS.budget, budget) : null,
        about.groups ? [field(LABELS.quotas, quota), field(LABELS.minima, minimum)] : null),
      h("div", { class: "grid" }, field(LABELS.exclude, exclude, "Ids, one in a line or with commas between them."),
        field(LABELS.must_include, include), field(LABELS.candidates, candidates))),
  ];
  return section("What is the round about?", form("Propose users", async () => {
    const asked = body();
    proposed(world, place, asked, await post(campaign(name, "preview"), asked));
  }, parts, { labels: LABELS }));
}

function proposed(world, place, asked, first) {
  const { name } = world, best = first, key = newKey();
  const summary = h("div", { "aria-live": "polite" }), people = h("div"), said = h("div");
  let now = first, changed = new Map();  // by the user who is there now: who was proposed in that place
  const accept = button("Accept and open the round", () => busy(accept, said, async () => {
    const body = changed.size ? { ...asked, users: contacts(now) } : asked;
    const opened = await post(campaign(name, "rounds"), body, { key: changed.size ? newKey() : key });
    announce(`Round ${opened.number} is open.`);
    location.hash = address("c", name, "rounds", opened.number);
  }, LABELS), "primary");

  const contacts = (found) => (found.strategies
    ? found.explanation.seeds.map((seed) => ({ user: seed.user, strategy: seed.strategy }))
    : found.explanation.seeds.map((seed) => seed.user));

  async function swap(old, fresh) {
    const seeds = now.explanation.seeds;
    if (seeds.some((seed) => seed.user === fresh)) throw new Error(`${fresh} is on the list already.`);
    const users = now.strategies
      ? seeds.map((seed) => ({ user: seed.user === old ? fresh : seed.user, strategy: seed.strategy }))
      : seeds.map((seed) => (seed.user === old ? fresh : seed.user));
    const was = changed.get(old) ?? old;
    const back = fresh === was && changed.size === 1;
    now = back ? best : await post(campaign(name, "preview"), { ...asked, users });
    changed.delete(old);
    if (fresh !== was) changed.set(fresh, was);
    draw();
    [...people.querySelectorAll("button")].find((each) => each.getAttribute("aria-label") === `Change ${fresh}`)?.focus();
  }

  function draw() {
    summary.replaceChildren(numbers("What to expect", expectations(now, best, asked, changed.size)));
    people.replaceChildren(reasonTable("Proposed users", now.explanation.seeds, Boolean(now.strategies), new Set(),
      (seed) => change(world, seed, changed.get(seed.user), swap)));
  }

  draw();
  const left = Object.entries(first.explanation.left_out || {}).filter(([, number]) => number).map(([reason, number]) => `${reason.replaceAll("_", " ")} ${num(number)}`);
  const title = h("div", { class: "proposal" }, section(`Proposal for ${productText(asked.product ?? null)}`, summary,
    left.length ? h("p", {}, `Left out beforehand: ${left.join(", ")}.`) : null, people,
    h("p", { class: "actions" }, accept, h("span", { class: "hint" }, "Nothing is opened before you accept.")), said));
  place.replaceChildren(title);
  title.querySelector("h2").tabIndex = -1;
  title.querySelector("h2").focus();
}

function expectations(now, best, asked, changes) {
  const { reach } = now, found = [[decimal(reach.mean), `users expected to respond; ${interval(reach)}`]];
  if (changes) found.push([signed(now.difference), `expected responses by your ${count(changes, "change")}; the proposal has ${decimal(best.reach.mean)}`, "change"]);
  found.push([num(now.explanation.seeds.length), asked.holdout ? `users, ${Math.round(100 * asked.holdout)} % of them held out` : "users to contact"]);
  if (now.cost !== null) found.push([cost(now.cost), "cost of the contacts"]);
  return found;
}

const signed = (value) => (Math.abs(value) < 0.005 ? "±0" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`);

// A cell with what can be done about one user.
function change(world, seed, was, swap) {
  const cell = h("div", { class: "change-cell" }), said = h("div");
  const rest = () => {
    const start = button("Change", () => {
      const found = finder(searchUsers(world.name));
      found.input.setAttribute("aria-label", `In place of ${seed.user}`);
      const go = h("button", {}, "Swap");
      const form = h("form", { class: "swap" }, found.input, found.list, go, button("Keep", rest, "quiet"), said);
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (!found.input.value.trim()) return;
        const fresh = found.chosen();
        busy(go, said, () => swap(seed.user, asId(String(fresh), world.sample)));
      });
      form.addEventListener("keydown", (event) => { if (event.key === "Escape") rest(); });
      cell.replaceChildren(form);
      found.input.focus();
    }, "small");
    start.setAttribute("aria-label", `Change ${seed.user}`);
    const undo = was === undefined ? null : button("Undo", () => busy(undo, said, () => swap(seed.user, was)), "small quiet");
    undo?.setAttribute("aria-label", `Back to ${was}`);
    cell.replaceChildren(start, undo ?? "", said);
    if (document.activeElement === document.body) start.focus();
  };
  rest();
  return cell;
}
