// Calls to the service. Errors come as problem details and repeat the library's words.

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `The service answered ${status}.`);
    this.parts = document.parts || [this.message];
    this.status = status;
    this.kind = document.type || "";
    this.title = status && status < 500 ? "" : document.title || "The service failed";
    this.request = document.request_id || "";
  }
}

const ROOT = "api/v1";

export const path = (...parts) => `${ROOT}/${parts.map(encoded).join("/")}`;

// Browsers take these two for steps in the address, however they are written.
function encoded(part) {
  if (part === "." || part === "..") throw new Problem(0, { title: "This cannot be opened here", detail: `No web address can hold the name “${part}”. In Python, tensorucb.copy_campaign gives the campaign another one.` });
  return encodeURIComponent(part);
}

export const campaign = (name, ...parts) => path("campaigns", name, ...parts);

// Values by name, or pairs where a name comes several times.
const query = (values) => {
  const given = (Array.isArray(values) ? values : Object.entries(values)).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
};

// What a view still waits for when somebody leaves it would hold up the next one: browsers have few connections.
let view = new AbortController();
export function leaveView() {
  view.abort();
  view = new AbortController();
}

export async function get(address, values = {}) {
  return answer(await request(address + query(values), { headers: { Accept: "application/json" }, signal: view.signal }));
}

export async function post(address, body, { values = {}, type = "application/json", key } = {}) {
  const headers = { Accept: "application/json", ...(key && { "Idempotency-Key": key }) };
  if (!(body instanceof FormData)) headers["Content-Type"] = type;
  const content = type === "application/json" && !(body instanceof Blob || body instanceof FormData) ? JSON.stringify(body ?? {}) : body;
  return answer(await request(address + query(values), { method: "POST", headers, body: content }));
}

export async function remove(address) {
  return answer(await request(address, { method: "DELETE" }));
}

async function request(address, options) {
  try {
    return await fetch(address, { credentials: "same-origin", ...options });
  } catch {
    throw new Problem(0, { title: "The service does not answer", detail: "Is it still running? Try again in a moment." });
  }
}

async function answer(response) {
  const text = await response.text();
  let document = null;
  try { document = text ? JSON.parse(text) : null; } catch { document = { detail: text.slice(0, 300) }; }
  if (response.ok) return document;
  if (response.status === 401) window.dispatchEvent(new Event("logged-out"));
  throw new Problem(response.status, document || {});
}

// The same key again means the same request again: one for each thing that somebody decides.
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const PAUSE = 300;  // milliseconds: responses often come in bursts

// Calls `changed` whenever the campaign's log has grown, once at a time; returns a function that ends it.
// A window that nobody sees lets go of its connection: browsers have only a few for each host.
export function watch(name, changed) {
  let source = null, last = null, waiting = false;
  const heard = async (event) => {
    const news = last !== null && event.data !== last;
    last = event.data;
    if (!news || waiting) return;
    waiting = true;
    for (let seen = null; seen !== last && source;) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
      seen = last;
      if (source) await Promise.resolve(changed()).catch(() => {});
    }
    waiting = false;
  };
  const leave = () => { source?.close(); source = null; };
  const follow = () => {
    leave();
    if (document.hidden) return;
    source = new EventSource(campaign(name, "live"));
    source.addEventListener("changed", heard);
  };
  document.addEventListener("visibilitychange", follow);
  follow();
  return () => { document.removeEventListener("visibilitychange", follow); leave(); };
}

const TYPES = {
  csv: "text/csv", json: "application/json", ndjson: "application/x-ndjson", jsonl: "application/x-ndjson",
  parquet: "application/vnd.apache.parquet",
};

export const typeOf = (file) => TYPES[file.name.split(".").pop().toLowerCase()] || "text/csv";
