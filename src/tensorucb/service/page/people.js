// Who may be contacted: opt-outs and opt-ins, consent, the contact cap, and the reason for one user.

import { count, done, field, finder, form, h, ids, note, num, numbers, paged, section } from "./dom.js";
import { campaign, get, post } from "./api.js";
import { called } from "./names.js";
import { searchUsers } from "./next.js";

const MOST = 500;

export async function people(place, name, session) {
  const top = h("div", { "aria-live": "polite" }), listed = h("div");
  const [someone] = (await get(campaign(name, "users"), { limit: 1 })).items;
  const draw = async () => {
    const [about, out] = await Promise.all([get(campaign(name)), get(campaign(name, "opt-outs"), { limit: MOST })]);
    top.replaceChildren(...standing(about));
    listed.replaceChildren(optedOut(about, out));
  };
  await draw();
  const change = session.may("operate")
    ? h("div", { class: "halves" }, said(name, "opt-outs", OUT, someone?.id, draw), said(name, "opt-ins", IN, someone?.id, draw)) : "";
  place.append(top, asking(name, session), change, listed);
}

function standing(about) {
  const { settings } = about, cap = settings.contact_cap, group = settings.contact_group;
  const shown = [[num(about.users), "users"], [num(about.opted_out), "opted out"]];
  if (settings.consent) shown.push([num(about.no_consent), "others without consent"]);
  if (about.opted_out_unknown) shown.push([num(about.opted_out_unknown), "opted out who are no users; kept in case they join"]);
  const rules = [
    ["Consent", settings.consent ? "only those who gave it are contacted" : "not asked for: no column of the users says it"],
    ["Contact cap", cap ? `at most ${cap.replace("/", " contacts of a user in ")}` : "none"],
    ["Counted over", group ? `all campaigns of the group ${group}` : "this campaign"],
    ["Rest of a user between contacts", settings.ask?.cooldown ?? "none by default"],
    ["Rest of the audience", settings.ask?.audience_rest ?? "none by default"],
    ["Groups for quotas", about.groups ? about.groups.slice(0, 12).join(", ") + (about.groups.length > 12 ? ` and ${num(about.groups.length - 12)} more` : "") : "none"],
  ];
  return [numbers("People", shown),
    section("Rules of the campaign", h("dl", { class: "terms" }, rules.map(([what, value]) => h("div", {}, h("dt", {}, what), h("dd", {}, value)))))];
}

// Who may only read types a pseudonym; the others find a user by name or id.
function typed() {
  const input = h("input", { type: "text", autocomplete: "off" });
  return { input, list: null, chosen: () => input.value.trim() };
}

// One user: may they be contacted, and if not, why.
function asking(name, session) {
  const answer = h("div", { "aria-live": "polite" });
  const picker = session.role === "read" ? typed() : finder(searchUsers(name));
  picker.input.required = true;
  const asked = form("Ask", async () => {
    const user = await get(campaign(name, "users", picker.chosen()));
    const group = user.group === null ? "" : ` Group ${user.group}.`;
    const before = user.rounds.length ? ` Contacted in ${count(user.rounds.length, "round")}, last in round ${user.rounds.at(-1)}.` : " Not contacted yet.";
    answer.replaceChildren(note(h("p", {}, h("strong", {}, called(user.id, user.name)), user.why_not === null ? " may be contacted." : ` may not be contacted: this user ${user.why_not}.`, group, before)));
  }, [field("May this user be contacted?", picker.input, "By the campaign’s rules, at this moment."), picker.list], { look: "" });
  return section("One user", asked, answer);
}

const OUT = { title: "Opt people out", action: "Opt out", text: "They are never contacted again, also if a list names them. Only hashes of ids are kept.", told: "opted out" };
const IN = { title: "Opt people in again", action: "Opt in", text: "Undoes an opt-out. Where consent is asked for, this is consent.", told: "opted in" };

// Ids that are pasted, or of a file with one in a line.
function said(name, route, { title, action, text, told }, sample, draw) {
  const pasted = h("textarea", { rows: "3", spellcheck: "false" }), file = h("input", { type: "file", accept: ".csv,.txt" }), everywhere = h("input", { type: "checkbox" });
  const asked = form(action, async (place) => {
    const read = file.files[0] ? (await file.files[0].text()).replace(/^\ufeff?(user|id)\s*\r?\n/i, "") : "";
    // A table with more columns would opt out its other cells too.
    if (/[,;\t]/.test(read)) throw new Error("The file has several columns. Leave the one with the ids, one in a line.");
    const users = [...ids(pasted.value, sample), ...ids(read, sample)];
    if (!users.length) throw new Error("Paste ids, or choose a file with one id in a line.");
    const report = await post(campaign(name, route), { users, everywhere: everywhere.checked });
    asked.reset();
    await draw();
    done(place, `${report.changed === 1 ? "1 person" : `${num(report.changed)} people`} ${told}. Users of this campaign among those named: ${num(report.users)}; others: ${num(report.unknown)}.`,
      report.in_open_rounds ? `${num(report.in_open_rounds)} of them are in open rounds${route === "opt-outs" ? ": if nobody has written to them yet, do not" : ""}.` : null,
      report.still_out ? `${num(report.still_out)} are still opted out for all campaigns.` : null);
  }, [field(`Ids to ${action.toLowerCase()}`, pasted, "One in a line, or with commas between them."), field(`File to ${action.toLowerCase()}`, file, "Text with one id in a line."), field("For all campaigns of this store", everywhere)],
  { look: "", labels: { users: "Ids" } });
  return section(title, h("p", {}, text), asked);
}

function optedOut(about, out) {
  const more = out.next ? h("p", { class: "hint" }, `The first ${num(out.items.length)}.`) : null;
  return section("Who has opted out", out.items.length ? [paged("Who has opted out", ["User"], out.items.map((one) => [called(one.id, one.name)]), []).place, more] : h("p", {}, "Nobody."));
}
