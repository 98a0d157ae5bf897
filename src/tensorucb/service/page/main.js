// The page: one address after "#" for each view, the head with who is logged in, and where the focus goes.

import { h, announce, button, link, problem, useZone } from "./dom.js";
import { get, leaveView, path, remove } from "./api.js";
import { hideNumbers } from "./charts.js";
import { list } from "./campaigns.js";
import { create } from "./create.js";
import { compare } from "./compare.js";
import { overview } from "./overview.js";
import { next } from "./next.js";
import { linkHere, notFiltered } from "./filters.js";
import { rounds, round } from "./rounds.js";
import { network } from "./network.js";
import { learned } from "./learned.js";
import { manage } from "./manage.js";
import { forgetNames, learnNames } from "./names.js";
import { login } from "./login.js";
import { people } from "./people.js";
import { lift } from "./lift.js";

// The last one is what nobody sees who may not use it.
const TABS = [["", "Overview", overview], ["next", "Next round", next, "operate"], ["rounds", "Rounds", rounds], ["network", "Network", network], ["learned", "What was learned", learned], ["lift", "Lift", lift], ["people", "People", people], ["manage", "Manage", manage, "operate"]];
const FILTERED = ["", "rounds", "lift"];  // views that show the chosen rounds alone
const RANKS = ["read", "operate", "admin"];

const main = document.getElementById("main");
const session = { role: null, may: (role) => !session.read_only && RANKS.indexOf(session.role) >= RANKS.indexOf(role) };
let leave = null, turn = 0, started = false;

async function whoAmI() {
  Object.assign(session, { role: null, name: null, read_only: false }, await get(path("session")));
  const chips = [session.read_only ? "read only" : null, session.role && session.role !== "admin" ? `role: ${session.role}` : null];
  const out = session.login && session.role ? button("Log out", async () => { await remove(path("session")); await start(); }, "quiet") : "";
  document.getElementById("site").replaceChildren(
    ...chips.filter(Boolean).map((text) => h("span", { class: "chip" }, text)), h("a", { href: "api/docs" }, "API"), out);
}

const tabs = () => TABS.filter(([, , , role]) => !role || session.may(role));

function view(parts) {
  const [first, name, tab, ...rest] = parts;
  if (!first) return { title: "Campaigns", draw: (place) => list(place, session) };
  if (first === "login") return { title: "Log in", draw: (place) => login(place, start) };
  if (first === "new" && session.may("admin")) return { title: "New campaign", draw: (place) => create(place) };
  if (first === "compare") return { title: "Compare campaigns", draw: compare };
  if (first === "c" && name) {
    const entry = tabs().find(([key]) => key === (tab ?? ""));
    if (tab === "rounds" && rest.length) {
      return { title: `Round ${rest[0]}`, name, tab, draw: (place) => round(place, name, rest[0], session) };
    }
    if (entry) return { title: tab ? entry[1] : name, name, tab: tab ?? "", draw: (place) => entry[2](place, name, session, rest) };
  }
  return { title: "Not found", draw: (place) => place.append(h("p", {}, "There is no such page. ", link("See all campaigns"), ".")) };
}

function head(page) {
  if (!page.name) return [h("h1", {}, page.title)];
  const links = tabs().map(([key, text]) => {
    const at = linkHere(text, "c", page.name, ...(key ? [key] : []));
    if (key === page.tab) at.setAttribute("aria-current", "page");
    return h("li", {}, at);
  });
  return [
    h("p", { class: "crumbs" }, link("Campaigns"), page.tab ? [" / ", linkHere(page.name, "c", page.name)] : null),
    h("h1", {}, page.title),
    h("nav", { "aria-label": "Campaign", class: "tabs" }, h("ul", {}, links)),
  ];
}

// A part of the address as text; what somebody typed by hand may be no proper one.
function plain(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

// Where the address chooses what is not there, the way out.
function plainAddress(error) {
  const [address, chosen] = location.hash.split("?");
  return error.status === 422 && chosen ? h("p", {}, h("a", { href: address }, "Show everything instead")) : "";
}

async function show(event) {
  const mine = ++turn, parts = location.hash.split("?")[0].replace(/^#\/?/, "").split("/").map(plain).filter(Boolean);
  const page = session.role || parts[0] === "login" ? view(parts) : view(["login"]);
  leave?.();
  leave = null;
  leaveView();
  hideNumbers();
  document.querySelector("dialog")?.close();
  const place = h("div", { class: "view", "aria-busy": "true" }, h("p", { class: "waiting" }, "Loading …"));
  main.replaceChildren(...head(page), place);
  main.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  document.title = page.name && page.title !== page.name ? `${page.title} · ${page.name} · tensorucb` : `${page.title} · tensorucb`;
  if (event) {
    main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
    announce(page.title);
  }
  const content = h("div", { class: "view" });
  try {
    if (page.name) await learnNames(page.name); else { forgetNames(); useZone(); }
    if (mine !== turn) return;
    if (page.name && !FILTERED.includes(page.tab)) content.append(notFiltered());
    const stop = await page.draw(content);
    if (mine !== turn) { stop?.(); return; }
    leave = stop ?? null;
  } catch (error) {
    if (mine !== turn) return;
    content.replaceChildren(problem(error), plainAddress(error));
  }
  place.replaceWith(content);
}

async function start() {
  try {
    await whoAmI();
  } catch (error) {
    if (error.status !== 401 && error.status !== 403) {
      main.replaceChildren(h("h1", {}, "tensorucb"), problem(error));
      return;
    }
  } finally {
    started = true;
  }
  if (session.role && location.hash === "#/login") history.replaceState(null, "", "#/");
  await show();
}

// A link to "#main" only moves the focus.
window.addEventListener("hashchange", (event) => {
  if (location.hash === "#main") { history.replaceState(null, "", new URL(event.oldURL).hash || "#/"); main.focus(); return; }
  if (started) show(event);  // before, whatever the address is by then will be shown
});
window.addEventListener("logged-out", () => { if (session.role) { session.role = null; show(); } });
start();
