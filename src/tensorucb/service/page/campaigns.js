// All campaigns, and a new one from files.

import { address, count, day, field, form, h, link, note, num, paged, section } from "./dom.js";
import { get, newKey, path, post } from "./api.js";
import { TABLE_FILES } from "./uploads.js";

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
      paged("Campaigns", ["Name", "Open rounds", "Rounds", "Users", "Edges", "Products", "Policy", "Created"], rows, [1, 2, 3, 4, 5]).place));
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

const LABELS = { name: "Name", window: "A response counts for", columns: "Columns that are called differently" };

export function create(place) {
  const name = h("input", { type: "text", required: true, autocomplete: "off", maxlength: "100" });
  const span = h("input", { type: "text", autocomplete: "off", placeholder: "7d" });
  const columns = h("input", { type: "text", autocomplete: "off", placeholder: "edges.source:follows, actions.item:sku" });
  const inputs = FILES.map(([key]) => h("input", { type: "file", accept: TABLE_FILES, required: key === "edges" }));
  let key = newKey(), sent = "";

  // The same again, after an answer that was lost, is the same campaign.
  const keyFor = (settings) => {
    const now = JSON.stringify([settings, inputs.map((input) => [input.files[0]?.name, input.files[0]?.size, input.files[0]?.lastModified])]);
    if (now !== sent) [key, sent] = [newKey(), now];
    return key;
  };
  const work = async () => {
    const body = new FormData();
    FILES.forEach(([table], at) => { if (inputs[at].files[0]) body.append(table, inputs[at].files[0]); });
    const settings = { name: name.value.trim() };
    if (span.value.trim()) settings.window = span.value.trim();
    for (const [table, meaning, column] of named(columns.value)) ((settings.columns ??= {})[table] ??= {})[meaning] = column;
    body.append("settings", JSON.stringify(settings));
    const made = await post(path("campaigns"), body, { key: keyFor(settings) });
    asked.replaceWith(ready(made));
    place.querySelector("a.button").focus();
  };
  const asked = form("Create campaign", work, [
    section("The campaign", h("div", { class: "grid" },
      field(LABELS.name, name, "Letters, digits, -, _ and ., such as spring-2026."), field(LABELS.window, span, "Such as 7d or 12h. Empty: however late it comes."))),
    section("Files", h("p", {}, "CSV, NDJSON or Parquet. They are sent to this service and to nobody else."),
      h("div", { class: "grid" }, FILES.map(([, label, hint], at) => field(label, inputs[at], hint))),
      h("details", {}, h("summary", {}, "Other names of columns"),
        field(LABELS.columns, columns, "Table, field and the column's name: edges.source:follows."))),
  ], { labels: LABELS });
  place.append(asked);
}

const ready = (made) => section(`${made.name} is ready`,
  h("p", {}, `${count(made.users, "user")}, ${count(made.edges, "edge")}, ${count(made.products, "product")}.`),
  made.report?.length ? note(h("ul", { class: "plain" }, made.report.map((line) => h("li", {}, line)))) : null,
  h("p", { class: "actions" },
    h("a", { class: "button primary", href: address("c", made.name, "next") }, "Ask for the first round"),
    link("Look at the campaign", "c", made.name)));
