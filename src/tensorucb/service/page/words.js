// What the service says in the words of the page: its errors come in parts, which name fields and calls.

const CALLS = {
  add_products: "“Add products” under Manage",
  add_users: "“Add users” under Manage",
  add_strategies: "“New campaign”, which takes a table of strategies",
  import_history: "“Learn from the past” under Manage",
  create_campaign: "“New campaign”",
  delete_campaign: "“Delete the campaign” under Manage",
  ask: "“Next round”",
  rounds: "the tab Rounds",
  users: "the tab Network",
  campaigns: "the list of campaigns",
};
const VALUES = { max_left_out: "“Leave all of them out”" };
const CONSTANTS = { None: "nothing", True: "yes", False: "no" };

// `labels` are those of the fields that were sent, by name; a function says what to do with a value.
export function inPageWords(parts, labels = {}) {
  return parts.reduce((said, part) => said + (typeof part === "string" ? part : begun(said, named(part, labels))), "");
}

// What stands at the beginning of a sentence begins with a large letter.
const begun = (said, words) => (/(^|[.:?] )$/.test(said) && words.startsWith("the ") ? words.replace("t", "T") : words);

function named({ kind, name, value }, labels) {
  if (kind === "call") return CALLS[name] || name;
  if (kind === "python") return ""; // nobody types it
  if (kind === "constant") return CONSTANTS[name] || name;
  if (value && VALUES[name]) return VALUES[name];
  const label = labels[name.split(".").find((part) => labels[part])];
  if (typeof label === "function") return label(value);
  const shown = label ? `“${label}”` : name;
  return value ? `${shown}, as ${typeof value === "object" ? Object.entries(value).map((pair) => pair.join(":")).join(", ") : value}` : shown;
}
