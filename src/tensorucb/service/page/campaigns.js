// All campaigns, and a new one from files.

import { address, busy, count, day, field, h, link, note, num, paged, section } from "./dom.js";
import { get, path, post } from "./api.js";

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
  const rows = items.map((one) => [
    link(one.name, "c", one.name), num(one.open), num(one.rounds), num(one.users), num(one.edges), num(one.products), one.policy, day(one.created),
  ]);
  place.append(
    start ? h("p", { class: "actions" }, start) : "",
    h("section", { "aria-label": "Campaigns" },
      paged("Campaigns", ["Name", "Open rounds", "Rounds", "Users", "Edges", "Products", "Policy", "Created"], rows, [1, 2, 3, 4, 5])));
}

const FILES = [
  ["edges", "Network", "Needed. Columns source (who influences) and target (who is influenced)."],
  ["actions", "Past actions", "Optional. Columns user, item and time: purchases, likes, installs."],
  ["products", "Products", "Optional. Column product, and whatever describes them."],
  ["users", "Users", "Optional. Column user, optionally cost and group, and whatever describes them."],
  ["strategies", "Strategies", "Optional. Column strategy, numbers that describe it, optionally cost."],
];

function named(text) {
  return text.split(",").map((part) => part.trim()).filter(Boolean).map((part) => {
    const found = /^(\w+)\.(\w+)\s*:\s*(.+)$/.exec(part);
    if (!found) throw new Error(`names of columns look like edges.source:follows; got ${part}.`);
    return found.slice(1);
  });
}

export function create(place) {
  const name = h("input", { type: "text", required: true, autocomplete: "off", maxlength: "200" });
  const span = h("input", { type: "text", autocomplete: "off", placeholder: "7d" });
  const columns = h("input", { type: "text", autocomplete: "off", placeholder: "edges.source:follows, actions.item:sku" });
  const inputs = FILES.map(([key]) => h("input", { type: "file", accept: ".csv,.tsv,.gz,.ndjson,.jsonl,.parquet", required: key === "edges" }));
  const submit = h("button", { class: "primary" }, "Create campaign");
  const said = h("div");
  const form = h("form", {},
    section("The campaign", h("div", { class: "grid" },
      field("Name", name), field("A response counts for", span, "Such as 7d or 12h. Empty: however late it comes."))),
    section("Files", h("p", {}, "CSV, NDJSON or Parquet. They are sent to this service and to nobody else."),
      h("div", { class: "grid" }, FILES.map(([, label, hint], place) => field(label, inputs[place], hint))),
      h("details", {}, h("summary", {}, "Other names of columns"),
        field("Columns that are called differently", columns, "Table, field and the column's name: edges.source:follows."))),
    h("p", { class: "actions" }, submit), said);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(submit, said, async () => {
      const body = new FormData();
      FILES.forEach(([key], place) => { if (inputs[place].files[0]) body.append(key, inputs[place].files[0]); });
      const settings = { name: name.value.trim() };
      if (span.value.trim()) settings.window = span.value.trim();
      for (const [table, field, column] of named(columns.value)) ((settings.columns ??= {})[table] ??= {})[field] = column;
      body.append("settings", JSON.stringify(settings));
      const made = await post(path("campaigns"), body);
      form.replaceWith(section(`${made.name} is ready`,
        h("p", {}, `${count(made.users, "user")}, ${count(made.edges, "edge")}, ${count(made.products, "product")}.`),
        made.report?.length ? note(h("ul", { class: "plain" }, made.report.map((line) => h("li", {}, line)))) : null,
        h("p", { class: "actions" },
          h("a", { class: "button primary", href: address("c", made.name, "next") }, "Ask for the first round"),
          link("Look at the campaign", "c", made.name))));
      place.querySelector("a.button").focus();
    });
  });
  place.append(form);
}
