// @ts-check
// Voices that are kept under a name.

import { call, ApiError } from "./api.js";
import { refresh, submit } from "./live.js";
import { say, toast, write } from "./state.js";
import { html, useState } from "./vendor/htm-preact.js";

/**
 * Keeps the voice of the recordings in the form.
 * @param {{ isReady: boolean, recordings: () => Promise<Record<string, any>>,
 *   onWrong: (reason: import("./api.js").Reason | null) => void }} props
 */
export function KeepVoice({ isReady, recordings, onWrong }) {
  const [name, setName] = useState("");
  const [isBusy, setBusy] = useState(false);
  const canKeep = isReady && name !== "" && !isBusy;
  const keep = async () => {
    if (!canKeep) return;
    setBusy(true);
    try {
      await submit({ kind: "voice", title: `Voice ${name}`, request: { name, ...(await recordings()) } });
      onWrong(null);
      setName("");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      onWrong(error.reason);
      say(`Not accepted: ${error.reason.message}`);
    }
    setBusy(false);
  };
  // Enter would send the form around it.
  const enter = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    void keep();
  };
  return html`<div class="row"><label>Keep this voice as
      <input value=${name} placeholder="a name" onKeyDown=${enter} onInput=${(/** @type {any} */ event) => setName(event.target.value.trim())} /></label>
    <button type="button" class="quiet" disabled=${!canKeep} onClick=${keep}>Keep the voice</button></div>`;
}

/** Removes the voice that is chosen. @param {{ name: string }} props */
export function RemoveVoice({ name }) {
  const remove = async () => {
    try {
      await call("DELETE", `v1/audio/voices/${encodeURIComponent(name)}`);
      write("speech", { voice: "" });
      await refresh(true);
      toast(`The voice ${name} is removed.`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.reason.message);
    }
  };
  return html`<button type="button" class="quiet" onClick=${remove}>Remove the voice ${name}</button>`;
}
