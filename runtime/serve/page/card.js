// @ts-check
// A job that ended, as a card.

import { call, ApiError } from "./api.js";
import { choose, isCompared } from "./compare.js";
import { Details } from "./details.js";
import { clock, nameOf, outputOf, tracksOf, when, wordsOf } from "./format.js";
import { Icon } from "./icons.js";
import { changed, mark, submit } from "./live.js";
import { Lyrics } from "./lyrics.js";
import { audio, toggle, usePlayer } from "./player.js";
import { Region } from "./region.js";
import { Notices, Wrong } from "./said.js";
import state, { say, set, toast } from "./state.js";
import { html, useRef, useState } from "./vendor/htm-preact.js";
import { Wave } from "./wave.js";

/** @typedef {import("./api.js").Job} Job */

/** Runs something that the server may refuse. @param {() => Promise<any>} work */
const tried = async (work) => {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(error.reason.message);
  }
};

/** @param {Job} job */
async function remove(job) {
  const name = nameOf(job);
  const next = document.getElementById(`card-${job.id}`)?.nextElementSibling;
  await mark(job, { deleted: true });
  if (state.playing?.id === job.id) {
    audio.pause();
    set({ playing: null });
  }
  set({ compared: state.compared.filter((one) => one.id !== job.id) });
  // The focus goes to the neighbour, not to the top of the page.
  requestAnimationFrame(() => /** @type {HTMLElement | null} */ (
    next?.querySelector("button") ?? document.getElementById("songs-title"))?.focus());
  toast(`“${name}” is deleted.`, () => void tried(async () => {
    changed(await call("PATCH", `v1/jobs/${job.id}`, { deleted: false }));
    set({ toast: null, jobs: [...state.jobs].sort((a, b) => (a.id < b.id ? 1 : -1)) });
    say(`“${name}” is back.`);
    requestAnimationFrame(() => document.getElementById(`card-${job.id}`)?.querySelector("button")?.focus());
  }));
}

/** The same request with another seed. @param {Job} job */
async function again(job) {
  const { seed, seeds, ...request } = job.request;
  await submit({ kind: job.kind, request, title: job.title });
}

/** @param {{ job: Job }} props */
function Title({ job }) {
  const [isOpen, setOpen] = useState(false);
  const field = useRef(/** @type {any} */ (null));
  const button = useRef(/** @type {any} */ (null));
  const end = (/** @type {boolean} */ isKept) => {
    const title = field.current.value.trim();
    setOpen(false);
    requestAnimationFrame(() => button.current?.focus());
    if (isKept && title !== (job.title ?? "")) void tried(() => mark(job, { title }));
  };
  if (isOpen) {
    return html`<form class="rename" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); end(true); }}>
      <input ref=${field} aria-label="Title" value=${job.title ?? nameOf(job)} maxlength="200"
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === "Escape") end(false); }} />
      <button class="quiet">Keep</button></form>`;
  }
  return html`<h3>${nameOf(job)}</h3><button class="pen" ref=${button} aria-label=${`Rename ${nameOf(job)}`} onClick=${() => {
    setOpen(true);
    requestAnimationFrame(() => field.current?.select());
  }}><${Icon} name="pen" /></button>`;
}

/** @param {{ job: Job, output: import("./api.js").Output, isOnly: boolean }} props */
function Track({ job, output, isOnly }) {
  const { isOn } = usePlayer();
  const [part, setPart] = useState(/** @type {import("./wave.js").Part | null} */ (null));
  const [isEdited, setEdited] = useState(false);
  const { track } = output;
  const version = { id: job.id, track };
  const isHere = state.playing?.id === job.id && state.playing.track === track;
  const isOpen = state.open?.id === job.id && state.open.track === track;
  const name = isOnly ? nameOf(job) : `${nameOf(job)}, version ${track}`;
  const lrc = outputOf(job, track, "lrc");
  const isSong = job.kind === "generate";
  const play = () => {
    set({ open: version });
    toggle(job, track);
  };
  return html`<div class="track">
    <div class="labelled">
      <button class="round main" onClick=${play} aria-label=${`${isHere && isOn ? "Pause" : "Play"} ${name}`}>
        <${Icon} name=${isHere && isOn ? "pause" : "play"} /></button>
      <span class="meta">${!isOnly && `Version ${track} · `}${clock(output.seconds)}${output.seed !== undefined && ` · seed ${output.seed}`}</span>
      <button class="quiet" aria-expanded=${isOpen} aria-label=${`${isOpen ? "Close" : "Open"} ${name}`}
        onClick=${() => set({ open: isOpen ? null : version })}>${isOpen ? "Close" : "Open"}</button>
      <button class="quiet" aria-pressed=${isCompared(version)} aria-label=${`Compare ${name}`} onClick=${() => choose(version)}>Compare</button>
    </div>
    ${isOpen && html`<div class="open">
      <${Wave} job=${job} output=${output} peaks=${outputOf(job, track, "peaks")} part=${part}
        onPart=${(/** @type {any} */ next) => { setPart(next); if (isSong) setEdited(true); }} />
      ${lrc && html`<${Lyrics} job=${job} output=${lrc} language=${language(job)} />`}
      ${isSong && html`<button class="quiet" aria-expanded=${isEdited} onClick=${() => setEdited(!isEdited)}>Change a part, extend, new words</button>`}
      ${isSong && isEdited && html`<${Region} job=${job} output=${output} part=${part} onPart=${setPart} />`}
    </div>`}
  </div>`;
}

/** @param {Job} job */
function language(job) {
  const code = job.resolved?.vocal_language ?? job.request.vocal_language;
  return code && code !== "unknown" ? code : undefined;
}

/** @param {{ job: Job }} props */
export function Card({ job }) {
  const tracks = tracksOf(job);
  const words = wordsOf(job);
  const name = nameOf(job);
  const isEnded = { failed: "Failed", cancelled: "Cancelled" }[job.state];
  return html`<li class="card" id=${`card-${job.id}`}>
    <div class="labelled"><${Title} job=${job} />
      <button class="round like" aria-pressed=${job.liked} aria-label=${`Like ${name}`}
        onClick=${() => tried(() => mark(job, { liked: !job.liked }))}><${Icon} name="heart" full=${job.liked} /></button></div>
    ${words && html`<p class="words">${words}</p>`}
    <p class="meta">${isEnded && html`<b>${isEnded}</b> · `}${{ speak: "Speech · ", understand: "Understood · ", voice: "Kept voice · " }[job.kind] ?? ""}${when(job.created)}${job.model && ` · ${job.model}`}
      ${job.tags.map((tag) => html` <button class="tag" key=${tag} aria-label=${`Show songs with the tag ${tag}`} onClick=${() => set({ filter: tag })}>${tag}</button>`)}</p>
    ${job.error && html`<${Wrong} reason=${job.error} />`}
    <${Notices} notices=${job.notices} />
    ${tracks.map((output) => html`<${Track} key=${output.track} job=${job} output=${output} isOnly=${tracks.length === 1} />`)}
    <div class="actions">
      ${job.state === "done" && job.kind !== "voice" && html`<button class="quiet" aria-label=${`Same again: ${name}`} onClick=${() => tried(() => again(job))}><${Icon} name="again" /> Same again</button>`}
      ${isEnded && html`<button class="quiet" aria-label=${`Try again: ${name}`} onClick=${() => tried(async () =>
        changed(await call("POST", `v1/jobs/${job.id}/retry`)))}><${Icon} name="again" /> Try again</button>`}
      <button class="quiet" aria-label=${`Delete ${name}`} onClick=${() => tried(() => remove(job))}><${Icon} name="bin" /> Delete</button>
      <${Details} job=${job} />
    </div>
  </li>`;
}
