// @ts-check
// Messages of the server. Words between backticks are code.

import { html } from "./vendor/htm-preact.js";

/** @param {{ text: string }} props */
export function Said({ text }) {
  return text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}

/** An error with its solution. @param {{ reason: import("./api.js").Reason }} props */
export function Wrong({ reason }) {
  return html`<p class="wrong"><b><${Said} text=${reason.message} /></b>
    ${reason.hint && html`<br /><${Said} text=${reason.hint} />`}</p>`;
}

/** Shows the field of an error, and puts the focus there. @param {HTMLElement | null | undefined} field */
export function reveal(field) {
  const fold = field?.closest("details");
  if (fold) fold.open = true;
  field?.focus();
}

/** @param {{ notices: string[] }} props */
export function Notices({ notices }) {
  return notices.map((notice) => html`<p class="notice" key=${notice}><${Said} text=${notice} /></p>`);
}
