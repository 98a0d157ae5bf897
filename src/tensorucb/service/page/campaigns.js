// All campaigns.

import { button, campaignLink, day, h, num, paged, section } from "./dom.js";
import { get, path } from "./api.js";
import { compareAddress, MOST_COMPARED } from "./compare.js";

const CHOOSE = "Choose campaigns by the boxes in front of their names.";

export async function list(place, session) {
  const items = [];
  let after = null;
  do {
    const page = await get(path("campaigns"), { limit: 500, after });
    items.push(...page.items);
    after = page.next;
  } while (after && items.length < 5000);
  const start = session.may("admin") ? h("a", { class: "button primary", href: "#/new" }, "New campaign") : null;
  if (!items.length) {
    place.append(section("No campaign yet",
      h("p", {}, "A campaign needs one file, a list of followers. With a log of purchases and a table of products it knows more from the first round on."),
      start));
    return;
  }
  const chosen = new Map(items.map((one) => [one.name, h("input", { type: "checkbox", "aria-label": `Compare ${one.name}` })]));
  const names = () => [...chosen].filter(([, box]) => box.checked).map(([name]) => name);
  const hint = h("span", { class: "hint" }, CHOOSE);
  const compared = button("Compare", () => {
    if (names().length < 2 || names().length > MOST_COMPARED) { hint.textContent = `Choose two to ${MOST_COMPARED} campaigns; ${num(names().length)} are chosen.`; return; }
    location.hash = compareAddress(names());
  });
  const rows = items.map((one) => [
    h("span", { class: "choice" }, chosen.get(one.name), campaignLink(one.name)), num(one.open), num(one.rounds), num(one.users), num(one.edges), num(one.products), one.policy, day(one.created),
  ]);
  place.append(
    start ? h("p", { class: "actions" }, start) : "",
    h("section", { "aria-label": "Campaigns" },
      paged("Campaigns", ["Name", "Open rounds", "Rounds", "Users", "Edges", "Products", "Policy", "Created"], rows, [1, 2, 3, 4, 5]).place,
      items.length > 1 ? h("p", { class: "actions", "aria-live": "polite" }, compared, hint) : null));
}
