// @ts-check
// A part of a song, made anew: chosen by the waveform or by two fields.

import { asSource, ApiError } from "./api.js";
import { nameOf } from "./format.js";
import { submit } from "./live.js";
import { Wrong } from "./said.js";
import { toast } from "./state.js";
import { html, useState } from "./vendor/htm-preact.js";
import { round } from "./wave.js";

/**
 * @typedef {import("./wave.js").Part} Part
 * @typedef {import("./api.js").Job} Job
 * @typedef {import("./api.js").Output} Output
 */

/** Keys of a request that belong to the old song alone. */
const OLD = ["seed", "seeds", "batch_size", "duration", "task_type", "src_audio", "reference_audio",
  "repainting_start", "repainting_end", "audio_codes", "audio_cover_strength", "thinking"];

/** @param {Job} job */
export function wordsAlone(job) {
  return Object.fromEntries(Object.entries(job.request).filter(([key]) => !OLD.includes(key)));
}

/**
 * @param {{ job: Job, output: Output, part: Part | null, onPart: (part: Part | null) => void }} props
 */
export function Region({ job, output, part, onPart }) {
  const seconds = output.seconds ?? 0;
  const [way, setWay] = useState("part");
  const [length, setLength] = useState(15);
  const [lyrics, setLyrics] = useState(String(job.request.lyrics ?? ""));
  const [caption, setCaption] = useState(String(job.request.caption ?? ""));
  const [isBusy, setBusy] = useState(false);
  const [wrong, setWrong] = useState(/** @type {import("./api.js").Reason | null} */ (null));

  const make = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (isBusy) return;
    const { start, end } = { part: part ?? { start: 0, end: 0 },
      after: { start: seconds, end: round(seconds + length) },
      before: { start: -length, end: 0 } }[way] ?? { start: 0, end: 0 };
    if (end <= start) return setWrong({ code: "", message: "Choose a part first: drag on the waveform, or fill in both fields." });
    setBusy(true);
    setWrong(null);
    try {
      const src_audio = await asSource(output);
      const request = { ...wordsAlone(job), caption, lyrics, task_type: "repaint", src_audio,
        repainting_start: start, repainting_end: end };
      const name = { part: "a new part", after: "longer", before: "with an intro" }[way];
      await submit({ request, title: `${nameOf(job)}, ${name}` });
      toast("It is in the queue.");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setWrong(error.reason);
    }
    setBusy(false);
  };

  /** @param {"start" | "end"} side */
  const field = (side) => (/** @type {any} */ event) => {
    const value = round(Number(event.target.value));
    if (event.target.value === "" || !Number.isFinite(value)) return;
    const old = part ?? { start: 0, end: round(Math.min(5, seconds)) };
    onPart({ ...old, [side]: value });
  };
  const ways = { part: "Make a part anew", after: "Extend the end", before: "Add an intro" };
  return html`<form class="region" novalidate onSubmit=${make} aria-label="Change a part">
    <div class="choices" role="group" aria-label="Change">
      ${Object.entries(ways).map(([key, label]) => html`<button type="button" key=${key}
        class="choice" aria-pressed=${way === key} onClick=${() => setWay(key)}>${label}</button>`)}
    </div>
    ${way === "part" && html`<div class="row">
      <label>From (s)<input name="start" type="number" min="0" max=${seconds} step="0.1"
        value=${part?.start ?? ""} onInput=${field("start")} /></label>
      <label>To (s)<input name="end" type="number" min="0" max=${seconds} step="0.1"
        value=${part?.end ?? ""} onInput=${field("end")} /></label>
      ${part && html`<button type="button" class="quiet" onClick=${() => onPart(null)}>Clear</button>`}
    </div>
    <p class="hint">Drag on the waveform, or focus it and press <kbd>[</kbd> and <kbd>]</kbd> at the
      two ends; <kbd>Shift</kbd> with an arrow moves the end.</p>`}
    ${way !== "part" && html`<div class="row"><label>Seconds<input name="length" type="number" min="1" max="300"
      value=${length} onInput=${(/** @type {any} */ event) => setLength(Number(event.target.value))} /></label></div>`}
    <label>Description<textarea name="caption" rows="2" value=${caption}
      onInput=${(/** @type {any} */ event) => setCaption(event.target.value)}></textarea></label>
    <label>Words<textarea name="lyrics" rows="4" value=${lyrics}
      onInput=${(/** @type {any} */ event) => setLyrics(event.target.value)}></textarea></label>
    <div role="alert">${wrong && html`<${Wrong} reason=${wrong} />`}</div>
    <div class="row end"><button class="main" aria-disabled=${isBusy}>${isBusy ? "Sending…" : "Make it"}</button></div>
  </form>`;
}
