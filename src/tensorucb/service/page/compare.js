// Campaigns side by side: reach, cost per responder, and what contact adds, with intervals.

import { campaignLink, cost, h, link, num, points, section, table } from "./dom.js";
import { get, path } from "./api.js";
import { card, chart } from "./charts.js";

export const MOST_COMPARED = 20;

// The address of a comparison, which can be sent to somebody.
export const compareAddress = (names) => `#/compare?${new URLSearchParams(names.map((name) => ["c", name]))}`;

export async function compare(place) {
  const names = [...new Set(new URLSearchParams(location.hash.split("?")[1] ?? "").getAll("c"))].slice(0, MOST_COMPARED);
  if (names.length < 2) {
    place.append(section("Nothing to compare", h("p", {}, "Choose two or more campaigns in the list, then “Compare”."), h("p", {}, link("See all campaigns"))));
    return;
  }
  const comparison = await get(path("compare"), names.map((name) => ["campaign", name]));
  const columns = ["Campaign", "Rounds closed", "Users contacted", "Users who responded", "Responses", "Expected", "Spent", "Cost per responder", "Lift in points (90\u00a0%)"];
  const rows = comparison.items.map((one) => [
    campaignLink(one.name), num(one.closed.rounds), num(one.contacted), num(one.reached), num(one.closed.compared),
    one.closed.expected === null ? "–" : num(one.closed.expected), one.spend === null ? "–" : cost(one.spend),
    one.cost_per_responder === null ? "–" : cost(one.cost_per_responder), liftText(one.lift),
  ]);
  place.append(
    h("section", { "aria-label": "Numbers" }, table("Campaigns side by side", columns, rows, [1, 2, 3, 4, 5, 6, 7, 8]),
      h("p", { class: "hint" }, "Responses and expected: in closed rounds with an expectation. A campaign without costs, or without a hold-out, has no cost per responder or no lift.")),
    h("div", { class: "cards" }, comparison.figures.map(({ title, about, document }) => card(title, chart(document, title).figure, about))));
}

export const liftText = (lift) => (lift === null ? "–" : `${points(lift.difference)} (${points(lift.low)}\u00a0to\u00a0${points(lift.high)})`);
