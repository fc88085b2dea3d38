// @ts-check
// A sound that the client brings: dropped or chosen, then covered, understood or used as a reference.

import { ApiError, upload } from "./api.js";
import { size } from "./format.js";
import { Icon } from "./icons.js";
import { submit } from "./live.js";
import { songModel } from "./more.js";
import state, { say, set, toast, write } from "./state.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

/** @typedef {import("./state.js").Source} Source */

const USES = { cover: "Cover", reference: "Reference", complete: "Complete", lego: "Add a track", extract: "Extract" };
const TRACKS = ["vocals", "backing_vocals", "drums", "bass", "guitar", "keyboard", "percussion", "strings",
  "synth", "fx", "brass", "woodwinds"];

/** The part of a request that names the source. @param {Source | null} source */
export function sourceOf(source) {
  if (!source) return {};
  if (source.use === "reference") return { reference_audio: [source.id] };
  const { use, id } = source;
  const { audio_cover_strength, track_name = "vocals" } = state.song;
  const own = {
    cover: audio_cover_strength === undefined ? {} : { audio_cover_strength },
    lego: { track_name },
    extract: { track_name },
    complete: { track_classes: [track_name] },
  }[use];
  return { task_type: use, src_audio: id, ...own };
}

/** Sends a file, and keeps it as the source of the next song. @param {File} file */
export async function bring(file) {
  const most = state.server?.limits.upload_bytes ?? Infinity;
  if (file.size > most) {
    toast(`${file.name} is larger than this server takes: ${size(file.size)} of ${size(most)} at most.`);
    return null;
  }
  say(`Sending ${file.name}.`);
  try {
    const id = await upload(file, file.name);
    set({ source: { id, name: file.name, use: "cover" }, tab: "song" });
    say(`${file.name} is here. Choose a use.`);
    return id;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(`${file.name} was refused: ${error.reason.message}`);
    return null;
  }
}

/** Takes files that are dropped anywhere on the page. */
export function useDrop() {
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    const over = (/** @type {DragEvent} */ event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (/** @type {DragEvent} */ event) => void (event.relatedTarget || setOver(false));
    const drop = (/** @type {DragEvent} */ event) => {
      setOver(false);
      const file = event.dataTransfer?.files[0];
      if (!file) return;
      event.preventDefault();
      void bring(file);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);
  return isOver;
}

/** The source of the next song, or a field that takes one. */
export function Dropped() {
  const { source } = state;
  if (!source) {
    return html`<label class="drop"><${Icon} name="up" /><span>Drop a sound, or <u>choose a file</u>, to cover or understand it</span>
      <input type="file" accept="audio/*,.wav,.flac,.mp3,.opus,.ogg" aria-label="Choose a sound file"
        onChange=${(/** @type {any} */ event) => { if (event.target.files[0]) void bring(event.target.files[0]); event.target.value = ""; }} /></label>`;
  }
  const model = songModel();
  const uses = Object.entries(USES).filter(([key]) => key === "reference" || !model || model.supports.includes(key));
  const understand = async () => {
    try {
      await submit({ kind: "understand", request: { audio: source.id }, title: `About ${source.name}` });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.reason.message);
    }
  };
  const isPart = ["lego", "extract", "complete"].includes(source.use);
  return html`<div class="source" role="group" aria-label="Source">
    <div class="labelled"><b>${source.name}</b>
      <button type="button" class="round small" aria-label=${`Remove ${source.name}`} onClick=${() => {
        set({ source: null });
        requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector(".drop input"))?.focus());
      }}><${Icon} name="close" /></button></div>
    <div class="choices" role="group" aria-label="Use">
      ${uses.map(([key, label]) => html`<button type="button" class="choice" key=${key} aria-pressed=${source.use === key}
        onClick=${() => set({ source: { ...source, use: key } })}>${label}</button>`)}
      <button type="button" class="choice" onClick=${understand}>Understand</button>
    </div>
    ${source.use === "cover" && html`<label>Closeness to the source
      <input type="number" min="0" max="1" step="any" placeholder="1" value=${state.song.audio_cover_strength ?? ""}
        onInput=${(/** @type {any} */ event) => write("song", { audio_cover_strength: event.target.value === "" ? "" : Number(event.target.value) })} /></label>`}
    ${isPart && html`<label>Track<select value=${state.song.track_name ?? "vocals"}
      onChange=${(/** @type {any} */ event) => write("song", { track_name: event.target.value })}>
      ${TRACKS.map((name) => html`<option key=${name} value=${name}>${name.replace("_", " ")}</option>`)}</select></label>`}
  </div>`;
}
