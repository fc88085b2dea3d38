// @ts-check
// The readiness line, and the field for a key.

import { call, ApiError } from "./api.js";
import { refresh } from "./live.js";
import state from "./state.js";
import { html, useState } from "./vendor/htm-preact.js";

export function Status() {
  const { server, isReached } = state;
  if (!isReached) {
    return html`<p class="status bad"><span class="dot"></span>The server does not answer. The page tries again by itself.</p>`;
  }
  if (!server) return html`<p class="status"><span class="dot"></span>Connecting…</p>`;
  const names = server.models.filter((model) => model.is_default).map((model) => model.id).join(", ");
  // The worker chooses the device that is called "auto", and does not tell.
  const place = server.device && server.device !== "auto" ? ` on ${server.device}` : "";
  if (server.not_warm) {
    return html`<p class="status bad"><span class="dot"></span>${capital(server.not_warm)}. Songs of other models may be sent.</p>`;
  }
  return html`${server.ready
    ? html`<p class="status good"><span class="dot"></span>Ready · ${names}${place}</p>`
    : html`<p class="status"><span class="dot"></span>Warming up · ${names}${place}. Songs may be sent already.</p>`}
  ${server.missing.map(({ text, command }) => html`<p class="status" key=${text}><span class="dot"></span>${capital(text)}. Get a released one: <code>${command}</code></p>`)}`;
}

/** @param {string} text */
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1).replaceAll("`", "");

export function Login() {
  const [wrong, setWrong] = useState("");
  const send = async (/** @type {any} */ event) => {
    event.preventDefault();
    try {
      await call("POST", "v1/session", { key: event.target.elements.key.value });
      setWrong("");
      await refresh();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setWrong(error.reason.message);
    }
  };
  return html`<main class="login"><form onSubmit=${send}><h2>This server needs a key</h2>
    <label>Key<input name="key" type="password" autocomplete="current-password" required /></label>
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}<button class="main">Go in</button></form></main>`;
}
