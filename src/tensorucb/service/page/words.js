// The service's words as those of the page: its errors name fields and routes of the API.

const ROUTES = [
  [/POST …\/products/g, "“Add products” under Manage"],
  [/POST …\/users/g, "“Add users” under Manage"],
  [/Add them with POST …\/strategies/g, "Create a campaign with a table of strategies"],
  [/POST …\/strategies/g, "a table of strategies"],
  [/POST …\/history/g, "“Learn from the past” under Manage"],
  [/POST \/api\/v1\/campaigns/g, "“New campaign”"],
  [/GET …\/rounds lists them/g, "the tab Rounds lists them"],
  [/GET …\/users lists them/g, "the tab Network finds them"],
  [/GET \/api\/v1\/campaigns lists them/g, "choose one from the list of campaigns"],
  [/with \?unknown=skip/g, "by “Leave these rows out and count them”"],
  [/with \?column=(\w+):(\w+)/g, "in “Columns that are called differently”, as $1:$2"],
  [/, or send its features/g, ""],
];

// `labels` are those of the fields that were sent. A field is named at the beginning, or anywhere if it is no plain word.
export function inPageWords(message, labels = {}) {
  const label = (found, name) => (labels[name] ? `“${labels[name]}”` : found);
  return ROUTES.reduce((text, [route, words]) => text.replace(route, words), message)
    .replace(/^(?:settings[.:] ?)?(\w+)(?=:|\.| (?!['"]))/, label)
    .replace(/(?<!['"“\w])(k|[a-z]+_[a-z]+)(?!['"”\w])/g, label);
}
