// The next round: the question, the proposal with its reasons, one user changed for another, and the acceptance.

import { announce, asId, button, busy, cost, count, decimal, field, finder, form, h, ids, interval, moneyInterval, num, numbers, section } from "./dom.js";
import { campaign, get, newKey, post } from "./api.js";
import { addressHere } from "./filters.js";
import { catalogue, productText, strategyText, withId } from "./names.js";
import { reasonTable } from "./rounds.js";
import { termsOf, weary } from "./terms.js";

export async function next(place, name) {
  const [about, someone] = await Promise.all([get(campaign(name)), get(campaign(name, "users"), { limit: 1 })]);
  const world = { name, about, sample: someone.items[0]?.id, product: catalogue("products")[0], strategies: catalogue("strategies").map((entry) => entry.id) };
  const proposal = h("div");
  place.append(question(world, proposal), proposal);
}

export const searchUsers = (name) => async (text) => (await get(campaign(name, "users"), { search: text, limit: 20 })).items;
export const searchProducts = (name) => async (text) => (await get(campaign(name, "products"), { search: text, limit: 50 })).items;

const LABELS = {
  product: "Product", k: "Users to contact", strategies: "Strategies to choose from", per_user: "Each user gets the best one for them",
  holdout: "Hold out, %", cooldown: "Leave out users contacted within", audience_rest: "Leave out users whose followers were addressed within", deadline: "Close by itself after", budget: "Budget",
  quotas: "Most users of each group", minima: "Fewest users of each group", exclude: "Never these users", must_include: "Always these", candidates: "Only among these",
};

function question(world, place) {
  const { name, about } = world, defaults = about.settings.ask || {};
  const product = about.products ? finder(searchProducts(name)) : null;
  if (product) { product.input.required = true; product.input.value = world.product === undefined ? "" : world.product.name ?? String(world.product.id); product.look(); }
  const k = h("input", { type: "number", min: "1", max: String(about.users), step: "1", value: String(defaults.k ?? Math.min(10, about.users)), inputmode: "numeric", required: true });
  const usual = Array.isArray(defaults.strategies) ? defaults.strategies.map(String) : null;
  const offered = world.strategies.map((strategy) => ({ strategy, box: h("input", { type: "checkbox", checked: !usual || usual.includes(String(strategy)) }) }));
  const perUser = h("input", { type: "checkbox", checked: Boolean(defaults.per_user) });
  const text = (placeholder = "") => h("input", { type: "text", autocomplete: "off", placeholder });
  const holdout = h("input", { type: "number", min: "0", max: "50", step: "1", inputmode: "numeric", placeholder: String(Math.round(100 * (defaults.holdout || 0))) });
  const budget = h("input", { type: "number", min: "0", step: "any", inputmode: "decimal" });
  const [quota, minimum] = [1, 2].map(() => h("input", { type: "number", min: "0", step: "1", inputmode: "numeric" }));
  const [cooldown, deadline, rest] = [text(span(defaults.cooldown)), text(span(defaults.deadline ?? defaults.window ?? about.settings.window)), text(span(defaults.audience_rest))];
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
    for (const [key, control] of [["cooldown", cooldown], ["audience_rest", rest], ["deadline", deadline]]) if (control.value.trim()) asked[key] = control.value.trim();
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
      h("div", { class: "boxes" }, offered.map(({ strategy, box }) => field(strategyText(strategy), box))),
      field(`${LABELS.per_user} (otherwise all get the same)`, perUser)) : null,
    h("details", {}, h("summary", {}, "Limits: budget, hold-out, rest between contacts, lists of users"),
      h("div", { class: "grid" },
        field(LABELS.holdout, holdout, "Drawn at random, not contacted: measures what contact changes."),
        field(LABELS.cooldown, cooldown),
        field(LABELS.audience_rest, rest),
        field(LABELS.deadline, deadline),
        about.costs ? field(LABELS.budget, budget) : null,
        about.groups ? [field(LABELS.quotas, quota), field(LABELS.minima, minimum)] : null),
      h("div", { class: "grid" }, field(LABELS.exclude, exclude, "Ids, one in a line or with commas between them."),
        field(LABELS.must_include, include), field(LABELS.candidates, candidates))),
  ];
  const propose = async () => {
    const asked = body();
    proposed(world, place, asked, await post(campaign(name, "preview"), asked), { again: propose, useRest: (length) => { rest.value = length; ask.requestSubmit(); } });
  };
  const ask = form("Propose users", propose, parts, { labels: LABELS });
  return section("What is the round about?", ask);
}

function proposed(world, place, asked, first, { again, useRest }) {
  const { name } = world, best = first;
  const summary = h("div", { "aria-live": "polite" }), agreed = h("div"), people = h("div"), said = h("div");
  let now = first, key = "", sent = "", changed = new Map();  // by the user who is there now: who was proposed in that place
  const accept = button("Accept and open the round", () => busy(accept, said, async () => {
    // What was shown is what is opened, or nothing is.
    const body = { ...asked, ...(changed.size && { users: contacts(now) }), deadline: now.deadline, proposal: now.proposal };
    if (JSON.stringify(body) !== sent) [key, sent] = [newKey(), JSON.stringify(body)];
    const opened = await post(campaign(name, "rounds"), body, { key });
    announce(`Round ${opened.number} is open.`);
    location.hash = addressHere("c", name, "rounds", opened.number);
  }, LABELS), "primary");

  const afresh = button("Propose again", () => busy(afresh, said, again, LABELS));

  const contacts = (proposal) => (proposal.strategies
    ? proposal.explanation.seeds.map((seed) => ({ user: seed.user, strategy: seed.strategy }))
    : proposal.explanation.seeds.map((seed) => seed.user));

  async function swap(old, fresh) {
    const seeds = now.explanation.seeds;
    const there = seeds.find((seed) => seed.user === fresh);
    if (there) throw new Error(`${withId(there.user, there.name)} is on the list already.`);
    const users = now.strategies
      ? seeds.map((seed) => ({ user: seed.user === old ? fresh : seed.user, strategy: seed.strategy }))
      : seeds.map((seed) => (seed.user === old ? fresh : seed.user));
    const was = changed.get(old) ?? old;
    const back = fresh === was && changed.size === 1;
    now = back ? best : await post(campaign(name, "preview"), { ...asked, users });
    changed.delete(old);
    if (fresh !== was) changed.set(fresh, was);
    draw();
    [...people.querySelectorAll("button")].find((each) => each.dataset.user === String(fresh))?.focus();
  }

  function draw() {
    summary.replaceChildren(numbers("What to expect", expectations(now, best, changed.size)));
    agreed.replaceChildren(termsOf(now, { ...world.about.settings.ask, ...asked }), weary(now.fatigue, useRest) ?? "");
    people.replaceChildren(reasonTable("Proposed users", now.explanation.seeds, Boolean(now.strategies), new Set(now.held_out.map(String)),
      (seed) => change(world, seed, best.explanation.seeds.find(({ user }) => user === changed.get(seed.user)), swap)));
  }

  draw();
  const left = Object.entries(first.explanation.left_out || {}).filter(([, number]) => number).map(([reason, number]) => `${reason.replaceAll("_", " ")} ${num(number)}`);
  const title = h("div", { class: "proposal" }, section(`Proposal for ${productText(asked.product ?? null)}`, summary,
    left.length ? h("p", {}, `Left out beforehand: ${left.join(", ")}.`) : null, people,
    h("h3", {}, "What you accept"), agreed,
    h("p", { class: "actions" }, accept, afresh, h("span", { class: "hint" }, "Nothing is opened before you accept; and if others would be chosen by then, nothing is opened either.")), said));
  place.replaceChildren(title);
  title.querySelector("h2").tabIndex = -1;
  title.querySelector("h2").focus();
}

// A duration as it is typed; what the campaign does if nothing is typed stands in the field.
function span(value) {
  if (typeof value !== "number") return value || "";
  const [unit, size] = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]].find(([, size]) => value >= size && value % size === 0) || ["s", 1];
  return `${value / size}${unit}`;
}

function expectations(now, best, changes) {
  const { reach } = now, entries = [[decimal(reach.mean), `users expected to respond; ${interval(reach)}`]];
  if (changes) entries.push([signed(now.difference), `expected responses by your ${count(changes, "change")}; the proposal has ${decimal(best.reach.mean)}`, "change"]);
  entries.push([num(now.seeds.length), now.held_out.length ? `users to contact; ${num(now.held_out.length)} more are held out` : "users to contact"]);
  if (reach.revenue) entries.push([cost(reach.revenue.mean), `revenue expected; ${moneyInterval(reach.revenue)}`]);
  if (now.cost !== null) entries.push([cost(now.cost), "cost of the contacts"]);
  return entries;
}

const signed = (value) => (Math.abs(value) < 0.005 ? "±0" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`);

// A cell with what can be done about one user.
function change(world, seed, was, swap) {
  const cell = h("div", { class: "change-cell" }), said = h("div");
  const rest = () => {
    const start = button("Change", () => {
      const picker = finder(searchUsers(world.name));
      picker.input.setAttribute("aria-label", `In place of ${withId(seed.user, seed.name)}`);
      const go = h("button", {}, "Swap");
      const form = h("form", { class: "swap" }, picker.input, picker.list, go, button("Keep", rest, "quiet"), said);
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (!picker.input.value.trim()) return;
        const fresh = picker.chosen();
        busy(go, said, () => swap(seed.user, asId(String(fresh), world.sample)), { users: "The list" });
      });
      form.addEventListener("keydown", (event) => { if (event.key === "Escape") rest(); });
      cell.replaceChildren(form);
      picker.input.focus();
    }, "small");
    start.setAttribute("aria-label", `Change ${withId(seed.user, seed.name)}`);
    start.dataset.user = String(seed.user);
    const undo = was === undefined ? null : button("Undo", () => busy(undo, said, () => swap(seed.user, was.user)), "small quiet");
    undo?.setAttribute("aria-label", `Back to ${withId(was.user, was.name)}`);
    cell.replaceChildren(start, undo ?? "", said);
    if (document.activeElement === document.body) start.focus();
  };
  rest();
  return cell;
}
