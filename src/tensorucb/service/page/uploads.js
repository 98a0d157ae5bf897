// Files with rows: responses of a round, or what happened before.

import { count, field, form, h, num } from "./dom.js";
import { post, typeOf } from "./api.js";

const ROW_FILES = ".csv,.json,.ndjson,.jsonl,.parquet";
export const TABLE_FILES = ".csv,.ndjson,.jsonl,.parquet";

// A form that sends a file of rows; `more` has further fields, each with its name in the address. `told` gets the report,
// the place for what to say, and what `before` gave when the file was sent.
export function rowsForm(address, { label, hint, action, look, more = [], before = () => null }, told) {
  const file = h("input", { type: "file", required: true, accept: ROW_FILES });
  const most = h("select", {}, h("option", { value: "0.5" }, "Leave out up to half of them"), h("option", { value: "1" }, "Leave all of them out"), h("option", { value: "0" }, "Refuse the file"));
  const columns = h("input", { type: "text", autocomplete: "off", placeholder: "user:buyer, time:bought_at" });
  const made = form(action, async (said) => {
    const chosen = file.files[0], was = before();
    const named = columns.value.split(",").map((part) => part.trim()).filter(Boolean).map((part) => ["column", part]);
    const values = [["max_left_out", most.value], ...named, ...more.map(([name, , value]) => [name, value()])];
    const report = await post(address, chosen, { type: typeOf(chosen), values });
    made.reset();
    await told(report, said, was);
  }, [
    field(label, file, hint), ...more.map(([, control]) => control),
    h("details", {}, h("summary", {}, "Other names of columns, rows that cannot be used"),
      field("Columns that are called differently", columns, "Field and column with a colon between them."),
      field("Rows that cannot be used", most, "Malformed rows, and users who are not in the network.")),
  ], { look, labels: { max_left_out: "Rows that cannot be used", columns: "Columns that are called differently", window: "A response counts for" } });
  return made;
}

// What became of the rows, by the counts that are not zero.
export function counted(first, report, parts) {
  const more = parts.filter(([name]) => report[name]?.length ?? report[name]).map(([name, text]) => `${num(report[name].length ?? report[name])} ${text}`);
  return `${[`${count(...first)} stored`, ...more].join(", ")}.`;
}
