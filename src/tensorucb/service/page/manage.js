// What changes a campaign beside its rounds: more products and users, the past, people who want to be forgotten, the end.

import { announce, button, busy, confirmed, count, done, field, finder, form, h, num, section } from "./dom.js";
import { campaign, get, post, remove, typeOf } from "./api.js";
import { forgetNames, withId } from "./names.js";
import { searchProducts, searchUsers } from "./next.js";
import { counted, rowsForm, TABLE_FILES } from "./uploads.js";

export async function manage(place, name, session) {
  const about = await get(campaign(name));
  place.append(h("div", { class: "halves" }, h("div", {}, products(name), users(name)), past(name, about)));
  if (session.may("admin")) place.append(h("div", { class: "halves" }, forget(name), end(name, about)));
}

const file = (required) => h("input", { type: "file", required, accept: TABLE_FILES });

function products(name) {
  const table = file(true);
  return section("Add products", form("Add products", async (said) => {
    const report = await post(campaign(name, "products"), table.files[0], { type: typeOf(table.files[0]) });
    forgetNames();
    done(said, `${count(report.added, "product")} added; the catalogue has ${num(report.total)} now.`, report.known ? `${num(report.known)} were known before and stay as they are.` : null);
  }, [field("Table of products", table, "CSV, NDJSON or Parquet with the same columns as when the campaign was created.")], { look: "" }));
}

function users(name) {
  const [people, edges] = [file(true), file(false)];
  return section("Add users", form("Add users", async (said) => {
    const body = new FormData();
    body.append("users", people.files[0]);
    if (edges.files[0]) body.append("edges", edges.files[0]);
    const report = await post(campaign(name, "users"), body);
    done(said, `${count(report.users_added, "user")} and ${count(report.edges_added, "edge")} added; the network has ${num(report.users)} users now.`);
  }, [
    field("Table of users", people, "Column user, and the same columns as when the campaign was created."),
    field("Who follows whom", edges, "Optional. Columns source (who influences) and target (who is influenced)."),
  ], { look: "" }));
}

function past(name, about) {
  const product = about.products ? finder(searchProducts(name)) : null;
  const span = h("input", { type: "text", autocomplete: "off", placeholder: "7d" });
  const more = [
    ...(product ? [["product", [field("Product of all rows", product.input, "Empty: a column product names it."), product.list], () => (product.input.value.trim() ? product.chosen() : "")]] : []),
    ["window", field("A response counts for", span, "Of purchases: such as 7d. Empty: as in this campaign."), () => span.value.trim()],
  ];
  return section("Learn from the past", rowsForm(campaign(name, "history"), {
    label: "File with responses or purchases", action: "Learn from it", look: "", more,
    hint: "Columns source, target and outcome (0 or 1), or user, product and time.",
  }, (report, said) => done(said, `${count(report.rounds, "past round")} learned. ${counted([report.responses, "response"], report, [["known_rounds", "rounds known before"], ["unknown", "rows left out: not in the network"], ["other", "rows left out: not in the catalogue"]])}`)));
}

const WHO = "Name or id of the user";

function forget(name) {
  const user = finder(searchUsers(name));
  user.input.required = true;
  return section("Forget a person", h("p", {}, "Removes somebody from the network, from all rounds and from what was learned, and checks that nothing is left."),
    form("Forget …", async (said) => {
      const found = await get(campaign(name, "users", user.chosen()));  // somebody must be there to be forgotten
      const who = withId(found.id, found.name);
      if (!await confirmed(`Forget ${who}?`, "Their responses go, and the model learns again from what remains. It cannot be undone.", found.name ?? String(found.id), "Forget this person")) return;
      const report = await post(campaign(name, "forget"), { user: found.id });
      user.input.value = "";
      done(said, `${who} is forgotten: ${count(report.responses, "response")} and ${count(report.rounds, "round")} named them.`,
        report.proven ? "A model learned from the remaining log alone is the same as the one in use." : "The check has failed: ask whoever runs the service to look at the log.",
        report.elsewhere.length ? `Other campaigns know the same id: ${report.elsewhere.join(", ")}.` : null);
    }, [field(WHO, user.input, "Type to search."), user.list], { look: "", labels: { user: WHO } }));
}

function end(name, about) {
  const said = h("div");
  const go = button("Delete the campaign …", async () => {
    const lost = `${count(about.users, "user")}, ${count(about.rounds, "round")} and everything that was learned go. It cannot be undone.`;
    if (!await confirmed(`Delete ${name}?`, lost, name, "Delete the campaign")) return;
    await busy(go, said, async () => {
      await remove(campaign(name));
      location.hash = "#/";
      announce(`${name} is deleted.`);
    });
  });
  return section("Delete the campaign", h("p", {}, "To keep a copy, first choose “Download everything as CSV” on the overview."), h("p", { class: "actions" }, go), said);
}
