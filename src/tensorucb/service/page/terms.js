// What a proposal holds beside its users: all that is accepted with it, in the words of the page.

import { button, cost, fine, h, num, when } from "./dom.js";
import { strategyText } from "./names.js";

const COUNTED = { direct: "followers of those contacted who respond", cascade: "everybody reached in a cascade" };
const CREDITS = { any: "every contacted user whom the buyer follows", last: "the one contacted last", shared: "all of them, in equal parts" };

// One number for every group, or one for each.
const byGroup = (value) => (typeof value === "object" ? Object.entries(value).map(([group, most]) => `${group} ${num(most)}`).join(", ") : `${num(value)} of each`);

// How many users get which.
const given = (strategies) => [...new Set(strategies)].map((each) => `${strategyText(each)} for ${num(strategies.filter((one) => one === each).length)}`).join(", ");

const SHOWN = 5;  // users of a list

function named(users) {
  if (!users?.length) return null;
  const more = users.length > SHOWN ? ` and ${num(users.length - SHOWN)} more` : "";
  return `${num(users.length)}: ${users.slice(0, SHOWN).join(", ")}${more}`;
}

// Rows of a list: what it is, and what holds in this round. Each comes from the service, but for the lists of users that
// were `asked` for.
export function termsOf({ terms, deadline, cost: spent, held_out: held, seeds, strategies, return_on_cost: returned }, asked) {
  const rows = [
    ["Contacted", `${num(seeds.length)} users`],
    ["Held out", held.length ? `${num(held.length)} users, drawn at random; a share of ${Math.round(100 * terms.holdout)}\u00a0% is asked for` : "nobody"],
    ["Strategies", strategies ? `${given(strategies)}; chosen among ${terms.strategies.map(strategyText).join(", ")}` : null],
    ["A response counts for", terms.window ?? "however late it comes"],
    ["Closes by itself", deadline === null ? "never" : when(deadline)],
    ["Rest between contacts", terms.cooldown ?? "none"],
    ["Rest of the audience", terms.audience_rest ?? "none"],
    ["Contact cap", terms.contact_cap ? `${terms.contact_cap}${terms.contact_group ? `, over all campaigns of ${terms.contact_group}` : ""}` : "none"],
    ["Cost of the contacts", spent === null ? null : cost(spent)],
    ["Budget", terms.budget === undefined ? null : cost(terms.budget)],
    ["Return on cost", returned ? `${fine(returned.mean)} expected (${Math.round(100 * returned.level)}\u00a0%: ${fine(returned.low)} to ${fine(returned.high)})` : null],
    ["Most users of each group", terms.quotas === undefined ? null : byGroup(terms.quotas)],
    ["Fewest users of each group", terms.minima === undefined ? null : byGroup(terms.minima)],
    ["Never these users", named(asked.exclude)],
    ["Always these users", named(asked.must_include)],
    ["Only among these users", named(asked.candidates)],
    ["Counted as reach", COUNTED[terms.objective] ?? terms.objective],
    ["A purchase counts for", CREDITS[terms.credit] ?? terms.credit],
  ];
  return h("dl", { class: "terms", "aria-label": "What will be accepted" },
    rows.filter(([, value]) => value).map(([what, value]) => h("div", {}, h("dt", {}, what), h("dd", {}, value))));
}

// Followers who were addressed again and again, and the rest that is suggested; `use` takes it over.
export function weary(fatigue, use) {
  if (!fatigue) return null;
  const { audience, again, rounds, ratio, most, rest } = fatigue;
  return h("div", { class: "note" },
    h("p", {}, `${num(again)} of the ${num(audience)} followers of these users were addressed in at least two of the last ${num(rounds)} rounds.`,
      ratio === null ? null : ` Followers who were addressed lately respond ${fine(ratio)} times as often as rested ones (80\u00a0%: at most ${fine(most)}).`),
    rest === null ? null : h("p", { class: "actions" }, button(`Propose with a rest of ${rest}`, () => use(rest))));
}
