// A new campaign from files: choose them, see what they hold and what each column means, then create it.

import { address, busy, count, field, form, h, link, note, problem, section, table } from "./dom.js";
import { newKey, path, post } from "./api.js";
import { TABLE_FILES } from "./uploads.js";

const FILES = [
  ["edges", "Network", "Needed. Who influences whom, a pair in each row."],
  ["actions", "Past actions", "Optional. Who bought, liked or installed what, and when."],
  ["products", "Products", "Optional. An id, and whatever describes them."],
  ["users", "Users", "Optional. An id, perhaps cost, group and consent, and whatever describes them."],
  ["strategies", "Strategies", "Optional. An id, numbers that describe it, perhaps its cost."],
];
const TITLES = Object.fromEntries(FILES);

const MEANINGS = {
  source: "Who influences", target: "Who is influenced", user: "The user", item: "The product", product: "The product", strategy: "The strategy",
  time: "When it happened", cost: "What a contact costs", group: "The group, for quotas", value: "What a response is worth", consent: "Consent to be contacted",
  name: "The name to show",
};

const LABELS = {
  name: "Name", window: "A response counts for", timezone: "Time zone of dates", metric: "What the campaign decides by", holdout: "Hold out by default, %",
  cooldown: "Rest of a user between contacts", contact_cap: "Contact cap", contact_group: "Campaigns that share the cap", columns: columnControls, max_left_out: "Rows that cannot be used",
};

// The controls that say which column is meant; in an error, fields stand by table or by themselves.
function columnControls(fields) {
  if (!fields) return "what the columns mean";
  const names = Object.entries(fields).flatMap(([name, value]) => (typeof value === "object" ? Object.keys(value) : [name]));
  return names.map((name) => `“${MEANINGS[name] ?? name}”`).join(" and ");
}

export function create(place) {
  const text = (props = {}) => h("input", { type: "text", autocomplete: "off", ...props });
  const controls = {
    name: text({ required: true, maxlength: "100" }), window: text(), timezone: text({ placeholder: "UTC", list: "zones" }),
    metric: h("select", {}, h("option", { value: "responders" }, "How many users respond"), h("option", { value: "value" }, "What their responses are worth")),
    contact_cap: text(), contact_group: text({ maxlength: "100" }),
    max_left_out: h("select", {}, h("option", { value: "0.5" }, "Leave out up to half of a table"), h("option", { value: "1" }, "Leave all of them out"), h("option", { value: "0" }, "Refuse the table")),
  };
  const asks = { holdout: h("input", { type: "number", min: "0", max: "90", step: "1", inputmode: "numeric" }), cooldown: text() };
  const inputs = new Map(FILES.map(([key]) => [key, h("input", { type: "file", accept: TABLE_FILES, required: key === "edges" })]));
  const looks = h("div");
  const told = {};  // by table and field: the column that somebody chose, where the service guessed another or none
  let key = newKey(), sent = "";

  const reading = () => {
    const asked = { columns: told, max_left_out: Number(controls.max_left_out.value) };
    for (const each of ["window", "timezone"]) if (controls[each].value.trim()) asked[each] = controls[each].value.trim();
    return asked;
  };
  const settings = () => {
    const asked = { ...reading(), name: controls.name.value.trim(), metric: controls.metric.value };
    for (const each of ["contact_cap", "contact_group"]) if (controls[each].value.trim()) asked[each] = controls[each].value.trim();
    const defaults = {};
    if (asks.holdout.value) defaults.holdout = Number(asks.holdout.value) / 100;
    if (asks.cooldown.value.trim()) defaults.cooldown = asks.cooldown.value.trim();
    return Object.keys(defaults).length ? { ...asked, ask: defaults } : asked;
  };
  const body = (chosen) => {
    const made = new FormData();
    for (const [tableName, input] of inputs) if (input.files[0]) made.append(tableName, input.files[0]);
    made.append("settings", JSON.stringify(chosen));
    return made;
  };
  // The same again, after an answer that was lost, is the same campaign.
  const keyFor = (chosen) => {
    const now = JSON.stringify([chosen, [...inputs.values()].map(({ files: [file] }) => [file?.name, file?.size, file?.lastModified])]);
    if (now !== sent) [key, sent] = [newKey(), now];
    return key;
  };

  const look = async () => {
    const preview = await post(path("preview-data"), body(reading()));
    const usable = !preview.problem && preview.tables.every((one) => !one.problem);
    looks.replaceChildren(...preview.tables.map((one) => tableLook(one, told)), outcome(preview), ending(usable));
    first.hidden = true;
    looks.querySelector("h2").tabIndex = -1;
    looks.querySelector("h2").focus();
  };
  const make = async () => {
    if (!asked.reportValidity()) return;
    const chosen = settings();
    const made = await post(path("campaigns"), body(chosen), { key: keyFor(chosen) });
    place.replaceChildren(ready(made));
    place.querySelector("a.button").focus();
  };
  const ending = (usable) => {
    const said = h("div"), again = h("button", { type: "button", class: usable ? "" : "primary" }, "Look again"), go = h("button", { type: "button", class: "primary" }, "Create campaign");
    again.addEventListener("click", () => { if (asked.reportValidity()) busy(again, said, look, LABELS); });
    go.addEventListener("click", () => busy(go, said, make, LABELS));
    return h("div", {}, h("p", { class: "actions" }, usable ? go : null, again, h("span", { class: "hint" }, "Look again after you have changed a file, a column or a setting.")), said);
  };
  // What was seen of other files says nothing about these.
  for (const [tableName, input] of inputs) input.addEventListener("change", () => { delete told[tableName]; looks.replaceChildren(); first.hidden = false; });

  const asked = form("Look at the files", look, [
    section("The campaign", h("div", { class: "grid" },
      field(LABELS.name, controls.name, "Letters, digits, -, _ and ., such as spring-2026."),
      field(LABELS.metric, controls.metric, "By worth: with amounts or values in your files."),
      field(LABELS.window, controls.window, "Such as 7d or 12h. Empty: however late it comes."),
      field(LABELS.timezone, controls.timezone, "Of dates, and of times that name no zone.")),
      h("details", {}, h("summary", {}, "Defaults of its rounds: hold-out, rest, contact cap"),
        h("div", { class: "grid" },
          field(LABELS.holdout, asks.holdout, "Drawn at random, not contacted: measures what contact changes. Empty: nobody."),
          field(LABELS.cooldown, asks.cooldown, "Such as 14d. Empty: none."),
          field(LABELS.contact_cap, controls.contact_cap, "Such as 2/7d: at most two contacts of a user in seven days."),
          field(LABELS.contact_group, controls.contact_group, "A name; contacts of all campaigns that give it count together.")))),
    section("Files", h("p", {}, "CSV, NDJSON or Parquet. They are sent to this service and to nobody else."),
      h("div", { class: "grid" }, FILES.map(([tableName, label, hint]) => field(label, inputs.get(tableName), hint)), field(LABELS.max_left_out, controls.max_left_out, "Malformed rows are counted with their lines."))),
  ], { labels: LABELS });
  const first = asked.querySelector(":scope > .actions");
  const zones = h("datalist", { id: "zones" }, (Intl.supportedValuesOf?.("timeZone") ?? []).map((zone) => h("option", { value: zone })));
  place.append(asked, zones, looks);
}

// The first rows of a file, and a control for each field that says which column it is.
function tableLook(one, told) {
  const sentence = h("p", { class: "lede", "aria-live": "polite" });
  const chosen = new Map();
  const say = () => {
    const at = (name) => one.columns.indexOf(chosen.get(name)?.value);
    const cells = one.first[0] ?? [];
    const ends = [at("source"), at("target")].map((column) => cells[column]);
    sentence.replaceChildren(...(ends.every(Boolean) ? [h("strong", {}, ends[0]), " influences ", h("strong", {}, ends[1]), ". If it is the other way round, exchange the two columns."] : ["Say which column holds the one who influences."]));
  };
  const edges = ["source", "target"].every((end) => one.fields.some((each) => each.name === end));
  const controls = one.fields.map((each) => {
    const free = each.column === null || told[one.table]?.[each.name] !== undefined;
    const control = h("select", {}, free ? h("option", { value: "" }, each.needed ? "Choose a column" : "none") : null,
      one.columns.map((name) => h("option", { value: name, selected: name === each.column }, name)));
    control.addEventListener("change", () => {
      (told[one.table] ??= {})[each.name] = control.value;
      if (!control.value) delete told[one.table][each.name];
      if (edges) say();
    });
    chosen.set(each.name, control);
    const said = each.candidates.length > 1 ? `Could be ${each.candidates.join(" or ")}.` : null;
    return field(`${MEANINGS[each.name] ?? each.name}${each.needed ? "" : " (optional)"}`, control, said);
  });
  if (edges) say();
  return section(TITLES[one.table],
    one.problem ? problem({ ...one.problem, title: "These columns do not fit yet" }, LABELS) : null, edges ? sentence : null,
    h("div", { class: "grid meanings" }, controls),
    table(`First rows: ${TITLES[one.table]}`, one.columns, one.first.map((row) => row.map((cell) => cell ?? "–"))));
}

function outcome(preview) {
  if (preview.problem) return section("Cannot be used yet", problem({ ...preview.problem, title: "The files do not fit yet" }, LABELS));
  if (preview.users === null) return section("Cannot be used yet", h("p", {}, "Say above which columns are meant, then look again."));
  return section("What will be used, and what left out",
    h("p", {}, `${count(preview.users, "user")}, ${count(preview.edges, "edge")}, ${count(preview.products, "product")}.`), reported(preview.report));
}

// Lines that belong to the one above begin with spaces.
const reported = (lines) => note(h("ul", { class: "plain report" }, lines.map((line) => h("li", { class: line.startsWith(" ") ? "under" : null }, line.trim()))));

const ready = (made) => section(`${made.name} is ready`,
  h("p", {}, `${count(made.users, "user")}, ${count(made.edges, "edge")}, ${count(made.products, "product")}.`),
  made.report?.length ? reported(made.report) : null,
  h("p", { class: "actions" },
    h("a", { class: "button primary", href: address("c", made.name, "next") }, "Ask for the first round"),
    link("Look at the campaign", "c", made.name)));
