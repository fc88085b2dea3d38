// @ts-check
// Everything else about a job: files, tags, what was changed, its request.

import { asSource, at, read, ApiError } from "./api.js";
import { changes, nameOf, size, tracksOf } from "./format.js";
import { Icon } from "./icons.js";
import { mark } from "./live.js";
import { fill } from "./more.js";
import state, { set, toast, write } from "./state.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

/** @typedef {import("./api.js").Job} Job */

const CONTENTS = { audio: "sound", lrc: "times of the lines", words: "times of the words", score: "scores", codes: "audio codes", latents: "latents",
  request: "request", description: "description", peaks: "waveform", plot: "picture",
  text: "answer of the language model", conditioning: "conditions and noise" };

/** A name that every file system takes. @param {string} name */
const fileName = (name) => name.replace(/[\\/:*?"<>|.\p{C}]+/gu, " ").trim();

/** @param {{ job: Job }} props */
export function Details({ job }) {
  const [isOpen, setOpen] = useState(false);
  const description = job.outputs.find((output) => output.content === "description");
  return html`<details class="about" open=${isOpen || Boolean(description)} onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}>
    <summary aria-label=${`Details of ${nameOf(job)}`}>Details</summary>
    ${(isOpen || description) && html`<${Inside} job=${job} />`}</details>`;
}

/** @param {{ job: Job }} props */
function Inside({ job }) {
  const found = changes(job.request, job.resolved);
  const [tags, setTags] = useState(job.tags.join(", "));
  const first = tracksOf(job)[0];
  const description = job.outputs.find((output) => output.content === "description");
  const use = async () => {
    try {
      set({ source: { id: await asSource(first), name: nameOf(job), use: "cover" }, tab: "song" });
      document.getElementById("song-caption")?.focus();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.reason.message);
    }
  };
  const refill = () => {
    if (job.kind === "speak") {
      // Files of a form are chosen again.
      write("speech", { ...Object.fromEntries(Object.keys(state.speech).filter((key) => key !== "hear").map((key) => [key, ""])), ...job.request });
      set({ tab: "speech" });
    } else {
      fill(job.request);
      set({ tab: "song" });
    }
    requestAnimationFrame(() => document.getElementById(job.kind === "speak" ? "speech-text" : "song-caption")?.focus());
  };
  const keep = (/** @type {Event} */ event) => {
    event.preventDefault();
    void mark(job, { tags: tags.split(",").map((tag) => tag.trim()).filter(Boolean) }).catch((error) => toast(error.message));
  };
  return html`<div class="inside">
    ${description && html`<${Description} output=${description} />`}
    ${job.outputs.length > 0 && html`<h4>Files</h4><ul class="files">${job.outputs.map((output) => html`<li key=${output.name}>
      <a href=${at(output.url)} download=${`${fileName(nameOf(job))} ${output.name}`}><${Icon} name="down" /> ${output.name}</a>
      <span class="meta">${/** @type {any} */ (CONTENTS)[output.content] ?? output.content}, ${size(output.bytes)}</span></li>`)}</ul>`}
    <form class="row" onSubmit=${keep}><label>Tags, with commas between
      <input value=${tags} onInput=${(/** @type {any} */ event) => setTags(event.target.value)} /></label><button class="quiet">Keep</button></form>
    <div class="row">
      ${["generate", "speak"].includes(job.kind) && html`<button class="quiet" onClick=${refill}>Use its words and settings</button>`}
      ${first && html`<button class="quiet" onClick=${use}>Use as a source</button>`}
    </div>
    ${found.length > 0 && html`<h4>What the model decided</h4><div class="scroll" tabindex="0" role="region" aria-label="What the model decided"><table>
      <thead><tr><th scope="col">Setting</th><th scope="col">Asked</th><th scope="col">Made</th></tr></thead>
      <tbody>${found.map((row) => html`<tr key=${row.key} class=${row.isNew ? "" : "changed"}><th scope="row">${row.key}</th><td>${row.asked}</td><td>${row.made}</td></tr>`)}</tbody></table></div>`}
  </div>`;
}

/** A song or a kept voice in words. @param {{ output: import("./api.js").Output }} props */
function Description({ output }) {
  const [value, setValue] = useState(/** @type {Record<string, any> | null} */ (null));
  useEffect(() => {
    read(output.url).then(setValue, () => {});
  }, [output.url]);
  if (!value) return null;
  const keys = ["caption", "lyrics", "bpm", "keyscale", "timesignature", "duration", "vocal_language", "language", "genres",
    "name", "model", "seconds", "transcripts"];
  const use = () => {
    const { caption, lyrics, bpm, keyscale, timesignature, duration } = value;
    fill({ ...state.song, caption, lyrics, bpm, keyscale, timesignature, duration });
    set({ tab: "song" });
    document.getElementById("song-caption")?.focus();
  };
  return html`<h4>Description</h4><dl>${keys.filter((key) => value[key]).map((key) => html`<dt>${key}</dt><dd>${String(value[key])}</dd>`)}</dl>
    ${!value.name && html`<button class="quiet" onClick=${use}>Write a song with it</button>`}`;
}
