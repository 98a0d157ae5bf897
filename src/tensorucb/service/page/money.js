// What responses are worth: revenue and return on cost, where the campaign knows of them.

import { cost, fine, moneyInterval, num } from "./dom.js";

// Of all rounds, for large numbers.
export function moneyNumbers(revenue) {
  if (!revenue) return [];
  const shown = [[cost(revenue.closed), `revenue of closed rounds${expected(revenue)}`]];
  if (revenue.open) shown.push([cost(revenue.open), "revenue of open rounds so far"]);
  if (revenue.return_on_cost !== null) {
    const range = revenue.low === null ? "" : `; 90\u00a0%: ${fine(revenue.low)} to ${fine(revenue.high)}`;
    shown.push([fine(revenue.return_on_cost), `return on cost of closed rounds${range}`]);
  }
  if (revenue.calibration) shown.push([`${num(revenue.calibration.held)} of ${num(revenue.calibration.rounds)}`, `intervals of the revenue held; ${Math.round(100 * revenue.calibration.promised)}\u00a0% are promised`]);
  if (revenue.without_amount) shown.push([num(revenue.without_amount), "responders without an amount count as nothing"]);
  return shown;
}

// The first rounds may have had no expectation.
function expected({ expected: sum, compared, closed }) {
  if (sum === null) return "";
  return compared === closed ? `; ${cost(sum)} was expected` : `; ${cost(sum)} was expected where ${cost(compared)} came`;
}

// Of one round, in a table: what came, and what was expected.
export function revenueText(one) {
  if (one.revenue === null) return "–";
  const expected = one.expected?.revenue;
  return expected ? `${cost(one.revenue)} (${cost(expected.low)}\u00a0–\u2060\u00a0${cost(expected.high)})` : cost(one.revenue);
}

// Of one round, for large numbers: `asked` says what was promised, `told` what came.
export function roundMoney(asked, told) {
  const shown = [], expected = asked.reach?.revenue, returned = asked.return_on_cost;
  if (told && told.revenue !== null) shown.push([cost(told.revenue), asked.status === "open" ? "revenue so far" : "revenue"]);
  if (expected) shown.push([cost(expected.mean), `revenue was expected; ${moneyInterval(expected)}`]);
  if (returned) shown.push([fine(returned.mean), `return on cost was expected; 90\u00a0%: ${fine(returned.low)} to ${fine(returned.high)}`]);
  if (told?.without_amount) shown.push([num(told.without_amount), "responders without an amount count as nothing"]);
  return shown;
}
