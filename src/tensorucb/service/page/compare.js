// Campaigns side by side: reach, cost per responder, and what contact adds, with intervals, in a period.

import { campaignLink, cost, field, h, link, num, points, problem, section, table } from "./dom.js";
import { get, path } from "./api.js";
import { card, chart } from "./charts.js";
import { asked, period } from "./filters.js";

export const MOST_COMPARED = 20;
const ENDS = { since: "From", until: "To" };

// The address of a comparison, which can be sent to somebody.
export const compareAddress = (names, ends = {}) => `#/compare?${new URLSearchParams([...names.map((name) => ["c", name]), ...Object.entries(ends)])}`;

export async function compare(place) {
  const given = new URLSearchParams(location.hash.split("?")[1] ?? "");
  const names = [...new Set(given.getAll("c"))].slice(0, MOST_COMPARED);
  const written = Object.fromEntries(Object.keys(ENDS).filter((end) => given.get(end)).map((end) => [end, given.get(end)]));
  if (names.length < 2) {
    place.append(section("Nothing to compare", h("p", {}, "Choose two or more campaigns in the list, then “Compare”."), h("p", {}, link("See all campaigns"))));
    return;
  }
  const found = h("div"), controls = period(written);
  const draw = async (ends) => found.replaceChildren(...compared(await get(path("compare"), [...names.map((name) => ["campaign", name]), ...Object.entries(asked(ends))])));
  for (const control of Object.values(controls)) {
    control.addEventListener("change", () => {
      const ends = Object.fromEntries(Object.keys(ENDS).map((end) => [end, controls[end].value]).filter(([, value]) => value));
      history.replaceState(null, "", compareAddress(names, ends));
      draw(ends).catch((error) => found.replaceChildren(problem(error)));
    });
  }
  await draw(written);
  place.append(h("form", { class: "filters", "aria-label": "Which rounds are compared" }, Object.entries(ENDS).map(([end, label]) => field(label, controls[end]))), found);
}

function compared({ items, measures, figures }) {
  const ends = (one, what, as) => {
    const measure = measures.find((each) => each.campaign === one.name && each.what === what);
    return measure && measure.low !== null ? ` (${as(measure.low)}\u00a0–\u2060\u00a0${as(measure.high)})` : "";
  };
  const columns = ["Campaign", "Rounds closed", "Users contacted", "Users who responded (90\u00a0%)", "Responses (expected)", "Spent", "Cost per responder (90\u00a0%)", "Lift in points (90\u00a0%)"];
  const rows = items.map((one) => [
    campaignLink(one.name), num(one.closed.rounds), num(one.contacted), num(one.reached) + ends(one, "reach", num), num(one.closed.compared) + (one.closed.expected === null ? "" : ` (${num(one.closed.expected)})`), one.spend === null ? "–" : cost(one.spend),
    one.cost_per_responder === null ? "–" : cost(one.cost_per_responder) + ends(one, "cost", cost), liftText(one.lift),
  ]);
  return [
    h("section", { "aria-label": "Numbers" }, table("Campaigns side by side", columns, rows, [1, 2, 3, 4, 5, 6, 7]),
      h("p", { class: "hint" }, "Responses and expected: in closed rounds with an expectation. A campaign without costs, or without a hold-out, has no cost per responder or no lift.")),
    h("div", { class: "cards" }, figures.map(({ title, about, document }) => card(title, chart(document, title).figure, about))),
  ];
}

export const liftText = (lift) => (lift === null ? "–" : `${points(lift.difference)} (${points(lift.low)}\u00a0to\u00a0${points(lift.high)})`);
