// @ts-check
// The form for speech.

import { Refusal, upload } from "./api.js";
import { submit } from "./live.js";
import { Wrong } from "./said.js";
import state, { say, write } from "./state.js";
import { html, useState } from "./vendor/htm-preact.js";

export function Speech() {
  const { speech, server } = state;
  const [wrong, setWrong] = useState(/** @type {import("./api.js").Reason | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const [recording, setRecording] = useState(/** @type {File | null} */ (null));
  const models = (server?.models ?? []).filter((model) => model.family === "speech");
  const model = models.find((one) => one.id === speech.model) ?? models.find((one) => one.is_default) ?? models[0];
  if (server && !model) {
    return html`<p class="hint">No model of speech is here. Get one with <code>acestep model pull qwen3-tts-0.6b-custom</code>.</p>`;
  }
  const voices = (server?.voices ?? []).filter((voice) => voice.model === model?.id);
  const input = (/** @type {any} */ event) => write("speech", { [event.target.name]: event.target.value });

  const make = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    try {
      const request = { ...speech };
      if (!voices.some((voice) => voice.id === request.voice)) delete request.voice;
      if (recording) request.reference = await upload(recording, recording.name);
      else delete request.transcript;
      await submit({ kind: "speak", request });
      setWrong(null);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      setWrong(error.reason);
      say(`Not accepted: ${error.reason.message}`);
    }
    setBusy(false);
  };
  return html`<form class="make" novalidate onSubmit=${make}>
    <label for="speech-text">Text</label>
    <textarea id="speech-text" name="text" rows="7" placeholder="What shall be said" value=${speech.text ?? ""} onInput=${input}></textarea>
    <div class="grid">
      ${models.length > 1 && html`<label class="two">Model<select name="model" value=${speech.model ?? ""} onChange=${input}>
        <option value="">${model?.id} (default)</option>
        ${models.map((one) => html`<option key=${one.id} value=${one.id}>${one.id}</option>`)}</select></label>`}
      <label>Voice<select name="voice" value=${speech.voice ?? ""} onChange=${input}>
        <option value="">the model's own</option>
        ${voices.map((voice) => html`<option key=${voice.id} value=${voice.id}>${voice.id}${voice.is_kept ? " (kept)" : ""}</option>`)}</select></label>
      <label>Language<select name="language" value=${speech.language ?? ""} onChange=${input}>
        <option value="">automatic</option>
        ${(model?.supports ?? []).filter((name) => name !== "auto").map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>
    </div>
    <label for="speech-instruct">Manner</label>
    <textarea id="speech-instruct" name="instruct" rows="2" placeholder="calm, a little slower" value=${speech.instruct ?? ""} onInput=${input}></textarea>
    <details class="more"><summary>The voice of a recording</summary>
      <label>Recording, a few seconds of one voice
        <input type="file" accept="audio/*" onChange=${(/** @type {any} */ event) => setRecording(event.target.files[0] ?? null)} /></label>
      <label>Its words<textarea name="transcript" rows="2" value=${speech.transcript ?? ""} onInput=${input}></textarea></label>
    </details>
    ${wrong && html`<${Wrong} reason=${wrong} />`}
    <button class="main wide" disabled=${!speech.text} aria-disabled=${isBusy}>${isBusy ? "Sending…" : "Speak"}</button>
  </form>`;
}
