// Log in with a token; the service answers with a cookie that scripts cannot read.

import { busy, field, h } from "./dom.js";
import { path, post } from "./api.js";

export function login(place, done) {
  const token = h("input", { type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
  const submit = h("button", { class: "primary" }, "Log in");
  const said = h("div");
  const form = h("form", { class: "narrow" },
    h("p", {}, "This service asks who you are. Whoever runs it makes tokens with ", h("code", {}, "tensorucb token add"), "."),
    field("Token", token), submit, said);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(submit, said, async () => {
      await post(path("session"), { token: token.value.trim() });
      await done();
    });
  });
  place.append(h("section", { "aria-label": "Log in" }, form));
}
