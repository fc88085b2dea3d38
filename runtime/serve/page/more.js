// @ts-check
// The other settings of a song. An empty field takes the checkpoint's own value, which it shows.

import state, { write } from "./state.js";
import { html } from "./vendor/htm-preact.js";

/**
 * @typedef {{ key: string, label: string, type?: string, min?: number, max?: number, step?: number,
 *   choices?: [string, string][], empty?: string, help?: string }} Field
 */

/** @type {[string, string][]} */
export const FORMATS = [["wav", "WAV"], ["wav24", "WAV, 24 bits"], ["wav32", "WAV, float"], ["flac", "FLAC"],
  ["mp3", "MP3"], ["opus", "Opus"]];

/** @type {Field[]} */
const FIELDS = [
  { key: "duration", label: "Length (s)", type: "number", min: 1, max: 600, step: 1, empty: "from the words" },
  { key: "bpm", label: "Tempo (bpm)", type: "number", min: 30, max: 300, step: 1, empty: "free" },
  { key: "keyscale", label: "Key", empty: "free", help: "C major" },
  { key: "timesignature", label: "Time signature", empty: "free",
    choices: [["2", "2/4"], ["3", "3/4"], ["4", "4/4"], ["6", "6/8"]] },
  { key: "vocal_language", label: "Language", empty: "from the words" },
  { key: "batch_size", label: "Songs", type: "number", min: 1, max: 8, step: 1, empty: "1" },
  { key: "seed", label: "Seed", empty: "random" },
  { key: "inference_steps", label: "Steps", type: "number", min: 1, max: 200, step: 1 },
  { key: "guidance_scale", label: "Guidance", type: "number", min: 0, max: 30, step: 0.1 },
  { key: "shift", label: "Shift", type: "number", min: 0.1, max: 10, step: 0.1 },
  { key: "audio_format", label: "Format", choices: FORMATS },
  { key: "thinking", label: "Thinking", choices: [["true", "yes"], ["false", "no"]] },
  { key: "score", label: "Scores of the song", empty: "no", choices: [["true", "yes"]] },
  { key: "latents", label: "Keep its latents", empty: "no", choices: [["true", "yes"]] },
];

/** All other keys of a request, as JSON. */
const OTHER = "other";

/** @param {string} text @returns {Record<string, any> | null} */
function otherOf(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

const FLAGS = ["thinking", "score", "latents"];

const NUMBERS = FIELDS.filter((field) => field.type === "number").map((field) => field.key);

/** Values that only a source needs. */
const OF_A_SOURCE = ["audio_cover_strength", "track_name"];

/** The model of songs that the form names, or the default one. */
export function songModel() {
  const models = (state.server?.models ?? []).filter((model) => model.family === "music");
  return models.find((model) => model.id === state.song.model)
    ?? models.find((model) => model.is_default) ?? models[0];
}

/** Makes a request of the form's words. @param {Record<string, any>} form */
export function requestOf(form) {
  /** @type {Record<string, any>} */
  const request = {};
  for (const [key, value] of Object.entries(form)) {
    if ((key === "lyrics" && form.instrumental) || OF_A_SOURCE.includes(key)) continue;
    if (NUMBERS.includes(key)) request[key] = Number(value);
    else if (FLAGS.includes(key)) request[key] = value === true || value === "true";
    // Text that is no object goes as it is: the server says that it knows no such key.
    else if (key === OTHER) Object.assign(request, otherOf(value) ?? { [OTHER]: value });
    else if (key === "seed") request[key] = /^\d+$/.test(String(value).trim()) ? Number(value) : value;
    else request[key] = value;
  }
  return request;
}

/** Keys that belong to the sources of a song. */
const SOURCES = /^(task_type$|instruction$|audio_co|cover_|src_|ref|repaint|track_|chunk_mask|flow_edit)/;

/** Fills the form with a request. Keys without a field become JSON. @param {Record<string, any>} request */
export function fill(request) {
  const known = ["caption", "lyrics", "instrumental", "model", "adapter", ...FIELDS.map((field) => field.key)];
  /** @type {Record<string, any>} */
  const form = {};
  for (const key of new Set([...known, ...Object.keys(state.song)])) {
    const value = request[key];
    form[key] = typeof value === "object" ? undefined : value;
  }
  const rest = Object.entries(request).filter(([key, value]) => value !== null && key !== OTHER && !SOURCES.test(key)
    && (typeof value === "object" || !known.includes(key)));
  if (rest.length > 0) form[OTHER] = JSON.stringify(Object.fromEntries(rest));
  write("song", form);
}

/** @param {{ model: import("./api.js").Model | undefined }} props */
export function More({ model }) {
  const { song } = state;
  const models = (state.server?.models ?? []).filter((one) => one.family === "music");
  const keys = [...FIELDS.map((field) => field.key), "adapter", OTHER];
  const adapters = state.server?.adapters ?? [];
  const set = keys.filter((key) => song[key] !== undefined).length;
  const defaults = model?.defaults ?? {};
  const own = (/** @type {Field} */ field) => {
    const value = defaults[field.key];
    return value === undefined || value === null || value === "" || typeof value === "object"
      ? field.empty ?? "automatic" : String(value);
  };
  const input = (/** @type {any} */ event) => write("song", { [event.target.name]: event.target.value });
  return html`<details class="more">
    <summary>More settings${set > 0 && html` <span class="count">${set} set</span>`}</summary>
    <div class="grid">
      ${models.length > 1 && html`<label class="two">Model<select id="song-model" name="model" value=${song.model ?? ""} onChange=${input}>
        <option value="">${model?.id ?? "the default one"} (default)</option>
        ${models.map((one) => html`<option key=${one.id} value=${one.id}>${one.id}</option>`)}</select></label>`}
      ${FIELDS.map((field) => html`<label key=${field.key}>${field.label}
        ${field.choices
          ? html`<select id=${`song-${field.key}`} name=${field.key} value=${String(song[field.key] ?? "")} onChange=${input}>
              <option value="">${own(field)}</option>
              ${field.choices.map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}</select>`
          : html`<input id=${`song-${field.key}`} name=${field.key} type=${field.type ?? "text"} min=${field.min} max=${field.max}
              step=${field.step && "any"} placeholder=${own(field)} value=${song[field.key] ?? ""} onInput=${input} autocomplete="off" />`}
      </label>`)}
      ${adapters.length > 0 && html`<label>Adapter<select id="song-adapter" name="adapter" value=${song.adapter ?? ""} onChange=${input}>
        <option value="">none</option>
        ${adapters.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>`}
      <label class="two">Other keys of the request (JSON)<textarea id="song-other" name=${OTHER} rows="2" spellcheck="false"
        placeholder='{"lm_temperature": 0.8, "lrc": true}' value=${song[OTHER] ?? ""} onInput=${(/** @type {any} */ event) => {
          const wrong = event.target.value.trim() !== "" && !otherOf(event.target.value);
          event.target.setCustomValidity(wrong ? "Write a JSON object, such as {\"lrc\": true}." : "");
          input(event);
        }}></textarea></label>
    </div>
    ${set > 0 && html`<button type="button" class="quiet" onClick=${() =>
      write("song", Object.fromEntries(keys.map((key) => [key, ""])))}>Back to the defaults</button>`}
    <p class="hint">An empty field takes the value that it shows${model ? `, from ${model.id}` : ""}.</p>
  </details>`;
}
