// All campaigns.

import { button, campaignLink, count, day, h, link, num, paged, section } from "./dom.js";
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
    h("span", { class: "choice" }, chosen.get(one.name), campaignLink(one.name)), num(one.open), num(one.rounds), one.policy, day(one.created),
  ]);
  const attention = h("div");
  place.append(
    attention,
    start ? h("p", { class: "actions" }, start) : "",
    h("section", { "aria-label": "Campaigns" },
      paged("Campaigns", ["Name", "Open rounds", "Rounds", "Policy", "Created"], rows, [1, 2]).place,
      items.length > 1 ? h("p", { class: "actions", "aria-live": "polite" }, compared, hint) : null));
  const waiting = await get(path("attention"));
  if (waiting.length) attention.append(section("Needs attention", h("ul", { class: "plain attention" }, waiting.map(mostUrgent))));
}

// What a campaign needs first, and how much more there is.
const mostUrgent = ({ name, notices: [first, ...others] }) => h("li", {}, campaignLink(name), " ", first.text,
  first.round === null ? null : [" ", link(`See round\u00a0${first.round}`, "c", name, "rounds", first.round)],
  others.length ? [" ", link(count(others.length, "more notice"), "c", name)] : null);
