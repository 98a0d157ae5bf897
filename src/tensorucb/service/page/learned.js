// What was learned: which users, products and strategies go together.

import { decimal, h, percent, section, table } from "./dom.js";
import { campaign, get } from "./api.js";
import { card, chart } from "./charts.js";
import { called, product, strategy } from "./names.js";

export async function learned(place, name) {
  const summary = await get(campaign(name, "learned"));
  if (!summary.products.length || !summary.users.length) {
    place.append(section("Nothing to show yet", h("p", {}, "Products of this campaign are given by features alone, so there are no names to put side by side.")));
    return;
  }
  place.append(h("p", { class: "lede" }, summary.rounds
    ? `What the model expects now, after ${summary.rounds} closed ${summary.rounds === 1 ? "round" : "rounds"}. Exploration is left out.`
    : "No round is closed yet: this is what the files alone suggest. Responses will change it."));
  for (const { figure, title, about } of summary.figures) {
    place.append(card(title, chart(campaign(name, "figures", figure), title).figure, about));
  }
  const strategies = summary.strategies.length > 0;
  const share = "Share of followers expected to respond";
  const columns = ["Product", "Best users, and the responses expected of each", ...(strategies ? ["Best strategy"] : []), share];
  const tried = new Map(summary.strategies.map((strategy, place) => [strategy, summary.strategy_rounds[place]]));
  const mark = (rounds) => (rounds ? "" : h("span", { class: "state" }, "not tried"));
  const rows = summary.products.map((one) => [
    [one.product === null ? "any" : product(one.product), " ", mark(one.rounds)],
    h("ul", { class: "chips" }, one.users.map((each) => h("li", {}, called(each.user, each.name), " ", h("b", {}, decimal(each.expected))))),
    ...(strategies ? [[strategy(one.strategy), " ", mark(tried.get(one.strategy))]] : []), percent(one.share),
  ]);
  place.append(section("By product", h("p", { class: "hint" }, "Those with the most closed rounds first. Not tried: no round about it, or with it, is closed; what is expected comes from features alone."), table("Best users by product", columns, rows, [columns.length - 1])));
}
