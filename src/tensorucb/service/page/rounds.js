// All rounds, and one round: who to contact and why, responses in, close.

import { button, busy, cost, decimal, done, field, finder, fine, h, interval, keepingFocus, link, note, num, numbers, paged, reachText, section, when } from "./dom.js";
import { campaign, get, post, watch } from "./api.js";
import { filters, selected, selection } from "./filters.js";
import { roundMoney } from "./money.js";
import { called, productText, strategy, withId } from "./names.js";
import { searchUsers } from "./next.js";
import { progressOf, ROUND_NUMBERS, roundColumns, roundRow } from "./overview.js";
import { counted, rowsForm } from "./uploads.js";

const MOST = 10000;  // the most that the service lists

export async function rounds(place, name, session) {
  const list = paged("Rounds", [], [], ROUND_NUMBERS), last = h("p", { class: "hint", hidden: true }, `The last ${num(MOST)} rounds.`);
  const none = section("No round yet", h("p", {}, "Rounds will stand here, the newest first."),
    session.may("operate") ? h("p", {}, link("Ask for the first round", "c", name, "next")) : null);
  const bar = h("div"), some = h("section", { "aria-label": "Rounds" }, bar, list.place, last);
  const draw = async () => {
    const progress = await get(campaign(name, "progress"), { rounds: MOST, ...selection() });
    const rows = [...progress.rounds].reverse().map((one) => roundRow(name, one, progress));
    last.hidden = rows.length < MOST;
    keepingFocus(place, () => {
      list.update(rows, roundColumns(progress));
      const now = rows.length || selected() ? some : none;
      if (now.parentNode !== place) place.replaceChildren(now);
    });
  };
  await draw();
  bar.append(await filters(name, draw));
  return watch(name, draw);
}

export async function round(place, name, key, session) {
  const top = h("div", { "aria-live": "polite" }), result = h("div"), work = h("div", { class: "steps" }), who = h("div");
  place.append(top, result, work, who);
  let last = null, drawnFor = "";

  async function draw() {
    const one = await get(campaign(name, "rounds", key));
    const told = await progressOf(name, one);
    top.replaceChildren(...standing(one, told));
    if (drawnFor !== one.status) {
      drawnFor = one.status;
      work.replaceChildren(...(session.may("operate") ? tasks(name, one, () => last, after) : []));
      await people(who, name, one, session);
    }
    last = told;
    return told;
  }

  // Says what a step has changed, in the numbers of before and after.
  async function after(said, before) {
    const now = await draw();
    const change = before && now && now.responders !== before.responders
      ? [h("strong", {}, `${num(before.responders)} → ${num(now.responders)}`), ` users have responded`, now.expected ? `; ${reachText(now.expected)} were expected.` : "."]
      : null;
    done(result, said, change);
  }

  await draw();
  return watch(name, draw);
}

function standing(one, told) {
  const shown = [[num(told?.responders ?? 0), one.status === "open" ? "users have responded so far" : "users responded"]];
  if (told?.expected) shown.push([decimal(told.expected.mean), `were expected; ${interval(told.expected)}`]);
  shown.push([num(one.contacted.length), "users to contact"]);
  if (one.held_out.length) shown.push([num(one.held_out.length), "held out, not to be contacted"]);
  if (one.cost !== null) shown.push([cost(one.cost), "cost of the contacts"]);
  shown.push(...roundMoney(one, told));
  const facts = [["status", one.status], ["product", productText(one.product)], ["opened", when(one.opened)], ["closes", one.status === "open" && one.deadline ? when(one.deadline) : null], ["closed", one.closed ? when(one.closed) : null]];
  return [
    h("ul", { class: "facts", "aria-label": "The round" }, facts.filter(([, value]) => value).map(([what, value]) => h("li", {}, `${what} `, h("b", {}, value)))),
    numbers("Key numbers", shown),
  ];
}

function tasks(name, one, before, after) {
  const at = (...parts) => campaign(name, "rounds", one.id, ...parts);
  const parts = [];
  if (one.status === "open") {
    parts.push(section("1. Contact these users",
      h("p", {}, "Give the list to whoever sends the messages.", one.held_out.length ? " Users who are held out are not on it." : ""),
      h("p", { class: "actions" }, h("a", { class: "button primary", href: at("seeds.csv"), download: `${name}-round-${one.number}.csv` }, "Download as CSV"))));
  }
  if (one.status !== "cancelled") parts.push(upload(at("responses"), one, before, after));
  if (one.status === "open") parts.push(ending(at, one, before, after));
  return parts;
}

function upload(address, one, before, after) {
  const open = one.status === "open";
  const sent = rowsForm(address, {
    label: "File with responses", action: "Send responses", look: open ? "primary" : "", before,
    hint: "CSV, NDJSON, JSON or Parquet with the columns user and time, or source, target and outcome (0 or 1); a column amount is what a response brought.",
  }, (report, said, was) => after(counted([report.accepted, "row"], report, TOLD), was));
  return section(open ? "2. Send what came back" : "Late responses",
    h("p", {}, open ? "As often as you like: rows that were sent before are counted once." : "The round is closed; what comes now is learned as well."), sent);
}

const TOLD = [["duplicates", "known before"], ["contradictions", "contradict earlier ones, which stand"], ["outside_window", "outside of the window"], ["unknown", "left out: not in the network"]];

function ending(at, one, before, after) {
  const said = h("div");
  const close = button("Close and learn", () => busy(close, said, async () => {
    const was = before();
    try {
      await post(at("close"), {});
    } catch (error) {
      if (!error.kind?.endsWith("EarlyCloseError")) throw error;
      if (!window.confirm(`${error.message}\n\nClose it all the same?`)) return;
      await post(at("close"), { early: true });
    }
    await after("The round is closed. Silence counts as “no”, and the model has learned from it.", was);
  }));
  const cancel = button("Cancel the round", () => busy(cancel, said, async () => {
    if (!window.confirm("Cancel this round? Nobody counts as contacted, and nothing is learned.")) return;
    await post(at("cancel"), {});
    await after("The round is cancelled. Nothing was learned from it.", null);
  }), "quiet");
  return section("3. Close", h("p", {}, one.deadline ? `It closes by itself on ${when(one.deadline)}; you may close it before.` : "When no more responses are to be expected."),
    h("p", { class: "actions" }, close, cancel), said);
}

async function people(place, name, one, session) {
  if (one.kind === "history") return;
  let reasons = [];
  try {
    reasons = (await get(campaign(name, "rounds", one.id, "explanation"))).seeds;
  } catch (error) {
    if (error.status !== 404 && error.status !== 409) throw error;
  }
  const held = new Set(one.held_out.map(String));
  const byUser = new Map(reasons.map((each) => [String(each.user), each]));
  const all = reasons.length ? reasons : one.seeds.map((user) => ({ user }));
  place.replaceChildren(section("Who, and why",
    all.length ? reasonTable("Chosen users", all, one.strategies !== null, held) : h("p", {}, "Nobody was chosen."),
    session.may("operate") && reasons.length ? why(name, one, byUser) : null));
}

export function reasonTable(label, seeds, strategies, held = new Set(), extra = null) {
  const byValue = seeds.some((seed) => seed.metric === "value");
  const columns = ["User", ...(extra ? [h("span", { class: "hidden" }, "Change")] : []), ...(strategies ? ["Strategy"] : []), byValue ? "Adds revenue" : "Adds", byValue ? "Revenue alone" : "Alone", "Strongest followers"];
  const first = 1 + (extra ? 1 : 0) + (strategies ? 1 : 0);
  const rows = seeds.map((seed, place) => [
    [called(seed.user, seed.name), held.has(String(seed.user)) ? h("span", { class: "state" }, "held out") : null],
    ...(extra ? [extra(seed, place)] : []),
    ...(strategies ? [strategy(seed.strategy)] : []),
    number(seed.gain), number(seed.score),
    followers(seed.followers || []),
  ]);
  return h("div", {}, paged(label, columns, rows, [first, first + 1]).place,
    h("p", { class: "hint" }, `Adds: this user’s part of the expected ${byValue ? "revenue" : "responses"}, beyond the users above; chosen users themselves do not count. Alone: if nobody else were contacted. Followers with the probability of a response.`));
}

const followers = (users) => (users.length
  ? h("ul", { class: "chips" }, users.slice(0, 3).map((each) => h("li", {}, called(each.user, each.name), " ", h("b", {}, fine(each.probability)))))
  : "–");

const number = (value) => (value === null || value === undefined ? "–" : fine(value));

// The service's text begins with the user's id.
function byName({ user, name, text }) {
  return name ? text.replace(/^('(\\.|[^'\\])*'|"(\\.|[^"\\])*"|-?\d+)/, () => withId(user, name)) : text;
}

function why(name, one, byUser) {
  const user = finder(searchUsers(name)), said = h("div", { "aria-live": "polite" }), submit = h("button", {}, "Explain");
  const form = h("form", { class: "inline" }, field("Why not somebody else?", user.input, "Type the name or the id of a user."), user.list, submit);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(submit, said, async () => {
      const wanted = String(user.chosen());
      const explanation = byUser.get(wanted) || await get(campaign(name, "rounds", one.id, "explanation"), { user: wanted });
      said.replaceChildren(note(h("p", {}, byName(explanation))));
    });
  });
  return h("div", {}, form, said);
}
