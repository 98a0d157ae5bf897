// What was learned: which users, products and strategies go together.

import { decimal, h, id, percent, productText, section, table } from "./dom.js";
import { campaign, get } from "./api.js";
import { card, chart } from "./charts.js";

export async function learned(place, name) {
  const found = await get(campaign(name, "learned"));
  if (!found.products.length || !found.users.length) {
    place.append(section("Nothing to show yet", h("p", {}, "Products of this campaign are given by features alone, so there are no names to put side by side.")));
    return;
  }
  place.append(h("p", { class: "lede" }, found.rounds
    ? `What the model expects now, after ${found.rounds} closed ${found.rounds === 1 ? "round" : "rounds"}. Exploration is left out.`
    : "No round is closed yet: this is what the files alone suggest. Responses will change it."));
  for (const { figure, title, about } of found.figures) {
    place.append(card(title, chart(campaign(name, "figures", figure), title).figure, about));
  }
  const strategies = found.strategies.length > 0;
  const columns = ["Product", "Best users, and the responses expected of each", ...(strategies ? ["Best strategy", "Followers expected to respond"] : ["Followers expected to respond"])];
  const rows = found.products.map((one) => [
    id(one.product === null ? "any" : productText(one.product)),
    h("ul", { class: "chips" }, one.users.map((each) => h("li", {}, id(each.user), " ", h("b", {}, decimal(each.expected))))),
    ...(strategies ? [String(one.strategy)] : []), percent(one.share),
  ]);
  place.append(section("By product", table("Best users by product", columns, rows, [columns.length - 1])));
}
