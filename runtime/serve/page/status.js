// @ts-check
// The readiness line, and the field for a key.

import { call, Refusal } from "./api.js";
import { refresh } from "./live.js";
import state from "./state.js";
import { html, useState } from "./vendor/htm-preact.js";

/** What the server lacks, with the command that gets it. */
function missing() {
  const { server } = state;
  if (!server) return [];
  const told = /** @type {any} */ (server).missing;
  if (Array.isArray(told) && told.length > 0) {
    return told.map((/** @type {any} */ one) => ({ text: String(one.text ?? one.what ?? one.message ?? ""), command: String(one.command ?? one.hint ?? "") }));
  }
  const has = (/** @type {string} */ family) => server.models.some((model) => model.family === family);
  if (!has("music") && !has("speech")) return [{ text: "No model is here yet.", command: "acestep model pull turbo" }];
  if (!has("music")) return [{ text: "No model of songs is here.", command: "acestep model pull turbo" }];
  return [];
}

export function Status() {
  const { server, isReached } = state;
  if (!isReached) {
    return html`<p class="status bad"><span class="dot"></span>The server does not answer. The page tries again by itself.</p>`;
  }
  if (!server) return html`<p class="status"><span class="dot"></span>Connecting…</p>`;
  const lacks = missing();
  if (lacks.length > 0) {
    return html`${lacks.map(({ text, command }) => html`<p class="status bad" key=${text}><span class="dot"></span>${text} ${command && html`Get it: <code>${command}</code>`}</p>`)}`;
  }
  const names = server.models.filter((model) => model.is_default).map((model) => model.id).join(", ");
  if (!server.ready) return html`<p class="status"><span class="dot"></span>Warming up · ${names}. Songs may be sent already.</p>`;
  return html`<p class="status good"><span class="dot"></span>Ready · ${names}</p>`;
}

export function Login() {
  const [wrong, setWrong] = useState("");
  const send = async (/** @type {any} */ event) => {
    event.preventDefault();
    try {
      await call("POST", "v1/session", { key: event.target.elements.key.value });
      setWrong("");
      await refresh();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      setWrong(error.reason.message);
    }
  };
  return html`<main class="login"><form onSubmit=${send}><h2>This server needs a key</h2>
    <label>Key<input name="key" type="password" autocomplete="current-password" required /></label>
    ${wrong && html`<p class="wrong">${wrong}</p>`}<button class="main">Go in</button></form></main>`;
}
