// What contact adds, measured against the hold-out, and how many rounds would show how much.

import { cost, count, decimal, field, finder, form, h, num, numbers, percent, points, section } from "./dom.js";
import { campaign, get } from "./api.js";
import { filters, selected, selection } from "./filters.js";
import { catalogue } from "./names.js";
import { searchProducts } from "./next.js";

const LABELS = { product: "Product of the rounds", k: "Users of each round", holdout: "Hold out, %", rounds: "Rounds", effect: "Effect in percentage points", power: "Probability that it shows, %" };

export async function lift(place, name) {
  const about = await get(campaign(name)), found = h("div", { "aria-live": "polite" });
  const draw = async () => { found.replaceChildren(measured(await get(campaign(name, "progress"), { rounds: 1, ...selection() }))); };
  await draw();
  if (about.rounds) place.append(await filters(name, draw));
  place.append(found, planner(name, about));
}

function measured({ lift: estimate, lift_missing: missing }) {
  if (!estimate) return section("What contact adds", h("p", {}, `It cannot be measured ${selected() ? "of these rounds" : "yet"}: ${missing}`));
  const shown = [
    estimate.responders ? [points(estimate.difference), `percentage points; ${interval(estimate, points)}`] : ["–", `no countable responses yet; ${interval(estimate, points)} percentage points`],
    [percent(estimate.contacted_rate), `of ${count(estimate.contacted_followers, "follower")} of contacted users responded`],
    [percent(estimate.held_out_rate), `of ${count(estimate.held_out_followers, "follower")} of users held out`],
    [num(estimate.rounds), "closed rounds with a hold-out"],
  ];
  if (estimate.revenue) shown.push([signed(estimate.revenue.difference), `revenue per follower; ${interval(estimate.revenue, signed)}`]);
  return section("What contact adds", numbers("What contact adds", shown),
    h("p", { class: "hint" }, "Followers of contacted users are compared with followers of users who were held out at random, in the same rounds."));
}

const interval = ({ low, high, level }, as) => `${Math.round(100 * level)}\u00a0%: ${as(low)} to ${as(high)}`;
const signed = (value) => `${value > 0 ? "+" : ""}${cost(value).replace("-", "−")}`;

function planner(name, about) {
  const number = (props) => h("input", { type: "number", inputmode: "decimal", step: "any", ...props });
  const defaults = about.settings.ask ?? {};
  const product = about.products ? finder(searchProducts(name)) : null;
  const [first] = catalogue("products");
  if (product) { product.input.required = true; product.input.value = first.name ?? String(first.id); product.look(); }
  const controls = {
    k: number({ min: "2", max: "1000", step: "1", placeholder: defaults.k ? String(defaults.k) : null }),
    holdout: number({ min: "1", max: "99", placeholder: defaults.holdout ? String(Math.round(100 * defaults.holdout)) : null }),
    rounds: number({ min: "1", max: "1000", step: "1" }), effect: number({ min: "0", max: "100" }),
    power: number({ min: "1", max: "99", value: "80" }),
  };
  const shares = ["holdout", "effect", "power"], answer = h("div", { "aria-live": "polite" });
  const asked = form("Plan", async () => {
    const values = { product: product?.chosen() };
    for (const [each, control] of Object.entries(controls)) if (control.value) values[each] = shares.includes(each) ? Number(control.value) / 100 : control.value;
    answer.replaceChildren(planned(await get(campaign(name, "lift", "plan"), values)));
  }, h("div", { class: "grid" },
    product ? [field(LABELS.product, product.input, `One of ${num(about.products)}; type to search.`), product.list] : null,
    field(LABELS.holdout, controls.holdout, "Share of the chosen users who are not contacted."), field(LABELS.k, controls.k),
    field(LABELS.rounds, controls.rounds, "Empty, with an effect: how many are needed."), field(LABELS.effect, controls.effect, "Empty: the smallest that shows."),
    field(LABELS.power, controls.power)), { look: "primary", labels: LABELS });
  return section("Plan a hold-out", h("p", {}, "How many rounds with a hold-out show which effect of contact? Leave out what you ask for."), asked, answer);
}

function planned(plan) {
  const shown = [
    [plan.rounds === null ? "> 1,000" : num(plan.rounds), plan.rounds === 1 ? "round" : "rounds"],
    [points(plan.effect), "percentage points: the effect that shows"],
    [`${Math.round(100 * plan.power)}\u00a0%`, `probability that the ${Math.round(100 * plan.level)}\u00a0% interval lies above 0`],
    [`${Math.round(100 * plan.holdout)}\u00a0%`, `of ${num(plan.users)} users per round held out`],
  ];
  return h("div", {}, numbers("The plan", shown),
    h("p", { class: "hint" }, `Assumed: ${decimal(plan.followers)} followers of a chosen user count, ${percent(plan.rate)} of them respond without contact, and two followers of one user act alike with a correlation of ${plan.clustering.toFixed(3)}.`,
      plan.rounds === null ? " Choose more users." : ""));
}
