// What came of the users with each value of a column of their table.

import { decimal, h, num, percent, section, table } from "./dom.js";
import { liftText } from "./compare.js";

const FEW = "too few to tell";

export function segments(progress) {
  if (progress.segment === null) return [];
  const title = `By ${progress.segment}`;
  if (!progress.segments.length) return [section(title, h("p", {}, "No round is closed yet, so there is nothing to split."))];
  const columns = [progress.segment, "Users", "Contacts", "Followers", "Expected", "Responses", "Observed", "Believed", "Lift in points (90\u00a0%)"];
  const rows = progress.segments.map((one) => [
    [String(one.id), one.enough ? null : h("span", { class: "state few" }, FEW)],
    num(one.users), num(one.contacts), num(one.followers), one.expected === null ? "–" : decimal(one.expected), decimal(one.responders).replace(/\.0$/, ""),
    percent(one.observed), percent(one.believed), liftText(one.lift),
  ]);
  return [section(title,
    h("p", {}, `Contacted users of closed rounds by their ${progress.segment}, and what their followers did. “${FEW}”: fewer than five different users were contacted, or fewer than ten responses came and were expected.`),
    table(title, columns, rows, [1, 2, 3, 4, 5, 6, 7, 8]))];
}
