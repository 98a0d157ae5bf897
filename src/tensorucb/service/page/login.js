// Log in with a token; the service answers with a cookie that scripts cannot read.

import { field, form, h } from "./dom.js";
import { path, post } from "./api.js";

export function login(place, done) {
  const token = h("input", { type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
  const asked = form("Log in", async () => {
    await post(path("session"), { token: token.value.trim() });
    await done();
  }, [
    h("p", {}, "This service asks who you are. Whoever runs it makes tokens with ", h("code", {}, "tensorucb token add"), "."),
    field("Token", token),
  ], { labels: { token: "Token" } });
  place.append(h("section", { "aria-label": "Log in", class: "narrow" }, asked));
}
