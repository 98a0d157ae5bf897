// How a campaign is going: large numbers, figures, rounds. It follows the log by itself.

import { address, announce, cost, count, decimal, h, keepingFocus, link, num, numbers, percent, points, productText, reachText, section, table } from "./dom.js";
import { campaign, get, watch } from "./api.js";
import { card, chart } from "./charts.js";

const LAST = 12;

export async function overview(place, name, session) {
  const head = h("div"), pictures = h("div", { class: "cards" }), below = h("div");
  const charts = new Map();
  let closed = 0;
  place.append(head, pictures, below);

  async function draw(live) {
    const [about, progress, figures] = await Promise.all([
      get(campaign(name)), get(campaign(name, "progress"), { rounds: 200 }), get(campaign(name, "figures"))]);
    keepingFocus(place, () => {
      head.replaceChildren(...opening(name, about, progress, session));
      below.replaceChildren(...lastRounds(name, progress, session));
    });
    for (const { figure, title, about: text } of figures.items) {
      if (charts.has(figure)) { charts.get(figure).draw().catch(() => {}); continue; }
      const made = chart(campaign(name, "figures", figure), title);
      charts.set(figure, made);
      pictures.append(card(title, made.figure, text));
    }
    // Responses come in many small parts; only the end of a round is worth an interruption.
    if (live && closed !== progress.closed.rounds) announce(`A round of ${name} has closed. ${num(progress.reached)} different users have responded so far.`);
    closed = progress.closed.rounds;
  }

  await draw(false);
  return watch(name, () => draw(true));
}

function opening(name, about, progress, session) {
  const facts = [["users", about.users], ["edges", about.edges], ["products", about.products], ["strategies", about.strategies], ["rounds", about.rounds]]
    .filter(([, value]) => value).map(([what, value]) => h("li", {}, `${what} `, h("b", {}, num(value))));
  if (about.behind) facts.push(h("li", {}, "model behind by rounds ", h("b", {}, num(about.behind))));
  const parts = [h("ul", { class: "facts", "aria-label": "The campaign" }, facts, h("li", {}, `policy `, h("b", {}, about.policy)))];
  parts.push(whatNow(name, progress, session));
  if (progress.rounds.length) parts.push(numbers("Key numbers", keyNumbers(progress)));
  const lost = Object.entries(about.quarantined || {});
  if (lost.length) parts.push(section("Left out", h("p", {}, `${count(lost.length, "closed round")} could not be learned; the model goes on without. `, lost[0][1])));
  return parts;
}

// The one thing to do next.
function whatNow(name, progress, session) {
  const open = progress.rounds.filter((one) => one.status === "open").slice(-3).reverse();
  const ask = session.may("operate") ? h("a", { class: `button ${open.length ? "" : "primary"}`, href: address("c", name, "next") }, progress.rounds.length ? "Next round" : "Ask for the first round") : null;
  if (!progress.rounds.length) {
    return section("No round yet", h("p", {}, "A round names the users to contact for one product, says how many responses to expect, and learns from what comes back."), ask);
  }
  if (!open.length) return h("div", { class: "now" }, h("p", {}, "All rounds are closed, and what came back is learned."), ask);
  const lines = open.map((one) => h("li", {}, link(`Round ${one.number}`, "c", name, "rounds", one.number),
    ` for ${productText(one.product)}: ${count(one.responders, "response")} so far`,
    one.expected ? `, ${reachText(one.expected)} expected.` : "."));
  const more = progress.open.rounds - open.length;
  return h("div", { class: "now" }, h("div", {}, h("p", {}, h("span", { class: "live" }), `${count(progress.open.rounds, "round")} open`),
    h("ul", { class: "plain" }, lines, more > 0 ? h("li", {}, `and ${num(more)} more`) : null)), ask);
}

function keyNumbers(progress) {
  const found = [], closed = progress.closed, lift = progress.lift, held = progress.calibration;
  if (closed.expected !== null) found.push([num(closed.compared), `responses; ${num(closed.expected)} were expected`]);
  found.push([num(progress.reached), "different users responded"], [num(progress.contacted), "different users contacted"]);
  if (progress.spend !== null) found.push([cost(progress.spend), "spent on contacts"]);
  if (held) found.push([`${held.held} of ${held.rounds}`, `intervals held; ${Math.round(100 * held.promised)}\u00a0% are promised`]);
  if (lift) found.push([points(lift.difference), `lift in percentage points (90\u00a0%: ${points(lift.low)} to ${points(lift.high)})`]);
  return found;
}

function lastRounds(name, progress, session) {
  if (!progress.rounds.length) return [];
  const rows = progress.rounds.slice(-LAST).reverse().map((one) => roundRow(name, one));
  const groups = [["Products", "Product", progress.products], ["Strategies", "Strategy", progress.strategies]].filter(([, , found]) => found.length);
  return [
    section("Rounds", table("Rounds", ROUND_COLUMNS, rows, [2, 4]), h("p", { class: "actions" }, link("All rounds", "c", name, "rounds"),
      session.may("operate") ? h("a", { href: `${campaign(name, "export")}?format=csv`, download: "" }, "Download everything as CSV") : null)),
    ...groups.map(([title, first, found]) => section(title,
      h("p", {}, "Believed is the share of followers that was expected to respond when the rounds were opened, observed is the share that did."),
      table(title, [first, "Observed", "Believed", "Responses", "Followers", "Contacts"],
        found.slice(0, 15).map((one) => [productText(one.id), percent(one.observed), percent(one.believed), decimal(one.responders).replace(/\.0$/, ""), num(one.followers), num(one.contacts)]),
        [1, 2, 3, 4, 5]))),
  ];
}

export const ROUND_COLUMNS = ["Round", "Status", "Responded", "Expected (90\u00a0%)", "Contacted", "Product"];

export const roundRow = (name, one) => [
  link(`Round\u00a0${one.number}`, "c", name, "rounds", one.number),
  h("span", { class: `state ${one.status}` }, one.kind === "ask" ? one.status : `${one.status} (${one.kind})`),
  num(one.responders), reachText(one.expected), num(one.contacted), productText(one.product),
];
