// How a campaign is going: large numbers, figures, rounds. It follows the log by itself.

import { announce, cost, count, day, decimal, h, keepingFocus, num, numbers, percent, points, reachText, section, table } from "./dom.js";
import { campaign, get, watch } from "./api.js";
import { card, chart } from "./charts.js";
import { moneyNumbers, revenueText } from "./money.js";
import { addressHere, filters, linkHere, selected, selection } from "./filters.js";
import { called, product, productText, strategy } from "./names.js";
import { segments } from "./segments.js";

const LAST = 12, OPEN = 3;  // rounds of the table, and open ones

export async function overview(place, name, session) {
  const head = h("div"), bar = h("div"), pictures = h("div", { class: "cards" }), below = h("div");
  const charts = new Map();
  let closed = 0;
  place.append(head, bar, pictures, below);

  async function draw(live) {
    const [about, progress, notices, figures, open] = await Promise.all([
      get(campaign(name)), get(campaign(name, "progress"), { rounds: LAST, ...selection() }), get(campaign(name, "attention")), get(campaign(name, "figures"), selection()), openRounds(name)]);
    keepingFocus(place, () => {
      head.replaceChildren(...opening(name, about, progress, notices, open, session));
      below.replaceChildren(...segments(progress), ...lastRounds(name, progress, session));
    });
    for (const [figure, made] of charts) {
      if (figures.items.some((item) => item.figure === figure && item.title === made.title)) continue;
      made.figure.closest("section").remove();
      charts.delete(figure);
    }
    for (const { figure, title, about: text } of figures.items) {
      if (charts.has(figure)) { charts.get(figure).draw().catch(() => {}); continue; }
      const made = { ...chart(campaign(name, "figures", figure), title, selection), title };
      charts.set(figure, made);
      pictures.append(card(title, made.figure, text));
    }
    // Responses come in many small parts; only the end of a round is worth an interruption.
    if (live && closed !== progress.closed.rounds) announce(`A round of ${name} has closed. ${num(progress.reached)} different users have responded so far.`);
    closed = progress.closed.rounds;
  }

  await draw(false);
  if (closed || selected()) bar.append(await filters(name, () => draw(false), true));
  return watch(name, () => draw(true));
}

// The newest open rounds, with what came of them so far.
async function openRounds(name) {
  if (selected()) return [];
  const { items } = await get(campaign(name, "rounds"), { status: "open", limit: OPEN });
  return Promise.all(items.map((one) => progressOf(name, one)));
}

// How one round is going, however many came after it.
export async function progressOf(name, { number, opened }) {
  const { rounds } = await get(campaign(name, "progress"), { since: (opened - 1).toFixed(3), until: (opened + 1).toFixed(3) });
  return rounds.find((one) => one.number === number);
}

function opening(name, about, progress, notices, open, session) {
  const facts = [["users", about.users], ["edges", about.edges], ["products", about.products], ["strategies", about.strategies], ["rounds", about.rounds]]
    .filter(([, value]) => value).map(([what, value]) => h("li", {}, `${what} `, h("b", {}, num(value))));
  if (about.behind) facts.push(h("li", {}, "model behind by rounds ", h("b", {}, num(about.behind))));
  const parts = [h("ul", { class: "facts", "aria-label": "The campaign" }, facts, h("li", {}, `policy `, h("b", {}, about.policy)))];
  if (notices.length) parts.push(needed(name, notices));
  if (!selected()) parts.push(whatNow(name, about, open, session));
  if (progress.rounds.length) parts.push(numbers("Key numbers", keyNumbers(progress)));
  return parts;
}

// What needs a person today, the most urgent first.
const needed = (name, notices) => section("Needs attention", h("ul", { class: "plain attention" }, notices.map((notice) => h("li", {},
  notice.text, notice.round === null ? null : [" ", linkHere(`See round\u00a0${notice.round}`, "c", name, "rounds", notice.round)]))));

// The one thing to do next.
function whatNow(name, about, open, session) {
  const ask = session.may("operate") ? h("a", { class: `button ${open.length ? "" : "primary"}`, href: addressHere("c", name, "next") }, about.rounds ? "Next round" : "Ask for the first round") : null;
  if (!about.rounds) {
    return section("No round yet", h("p", {}, "A round names the users to contact for one product, says how many responses to expect, and learns from what comes back."), ask);
  }
  if (!open.length) return h("div", { class: "now" }, h("p", {}, "All rounds are closed, and what came back is learned."), ask);
  const lines = open.filter(Boolean).map((one) => h("li", {}, linkHere(`Round ${one.number}`, "c", name, "rounds", one.number),
    ` for ${productText(one.product)}: ${count(one.responders, "response")} so far`,
    one.expected ? `, ${reachText(one.expected)} expected.` : "."));
  const more = about.open - lines.length;
  return h("div", { class: "now" }, h("div", {}, h("p", {}, h("span", { class: "live" }), `${count(about.open, "round")} open`),
    h("ul", { class: "plain" }, lines, more > 0 ? h("li", {}, `and ${num(more)} more`) : null)), ask);
}

function keyNumbers(progress) {
  const entries = [], closed = progress.closed, lift = progress.lift, held = progress.calibration;
  if (closed.expected !== null) entries.push([num(closed.compared), `responses; ${num(closed.expected)} were expected`]);
  entries.push([num(progress.reached), "different users responded"], [num(progress.contacted), "different users contacted"]);
  if (progress.spend !== null) entries.push([cost(progress.spend), "spent on contacts"]);
  entries.push(...moneyNumbers(progress.revenue));
  if (held) entries.push([`${num(held.held)} of ${num(held.rounds)}`, `intervals held; ${Math.round(100 * held.promised)}\u00a0% are promised`]);
  if (lift && !lift.responders) entries.push(["–", `lift: no countable responses yet (90\u00a0%: ${points(lift.low)} to ${points(lift.high)} percentage points)`]);
  else if (lift) entries.push([points(lift.difference), `lift in percentage points (90\u00a0%: ${points(lift.low)} to ${points(lift.high)})`]);
  return entries;
}

function lastRounds(name, progress, session) {
  if (!progress.rounds.length) return selected() ? [section("No such round", h("p", {}, "No round matches. Choose another product, strategy or period."))] : [];
  const rows = progress.rounds.slice(-LAST).reverse().map((one) => roundRow(name, one, progress));
  const groups = [["Products", "Product", progress.products], ["Strategies", "Strategy", progress.strategies]].filter(([, , entries]) => entries.length);
  return [
    section("Rounds", table("Rounds", roundColumns(progress), rows, ROUND_NUMBERS), h("p", { class: "actions" }, h("a", { href: addressHere("c", name, "rounds") }, "All rounds"),
      session.may("operate") ? h("a", { href: `${campaign(name, "export")}?format=csv`, download: "" }, "Download everything as CSV") : null)),
    ...groups.map(([title, first, entries]) => section(title,
      h("p", {}, "Believed is the share of followers that was expected to respond when the rounds were opened, observed is the share that did."),
      table(title, [first, "Observed", "Believed", "Responses", "Followers", "Contacts"],
        entries.slice(0, 15).map((one) => [one.id === null ? "by features" : called(one.id, one.name), percent(one.observed), percent(one.believed), decimal(one.responders).replace(/\.0$/, ""), num(one.followers), num(one.contacts)]),
        [1, 2, 3, 4, 5]))),
  ];
}

const ROUND_COLUMNS = ["Round", "Opened", "Status", "Responded", "Expected (90\u00a0%)", "Contacted", "Product", "Strategy", "Spent"];
export const ROUND_NUMBERS = [3, 5, 8, 9];
// Without the last column where nothing is known of what responses are worth.
export const roundColumns = ({ revenue }) => (revenue ? [...ROUND_COLUMNS, "Revenue (90\u00a0% expected)"] : ROUND_COLUMNS);

export const roundRow = (name, one, { revenue }) => [
  h("span", { class: "whole" }, linkHere(`Round ${one.number}`, "c", name, "rounds", one.number)),
  h("span", { class: "date" }, day(one.opened)),
  h("span", { class: `state ${one.status}` }, one.kind === "ask" ? one.status : `${one.status} (${one.kind})`),
  num(one.responders), reachText(one.expected), num(one.contacted), product(one.product),
  one.strategies.length ? one.strategies.map(strategy).flatMap((each, at) => (at ? [", ", each] : [each])).flat() : "–", one.spend === null ? "–" : cost(one.spend), ...(revenue ? [revenueText(one)] : []),
];
