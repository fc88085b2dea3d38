// @ts-check
// The player: one sound for the whole page, and its bar at the bottom.

import { at } from "./api.js";
import { clock, nameOf, outputOf, tracksOf } from "./format.js";
import { Icon } from "./icons.js";
import state, { set, toast } from "./state.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

/** @typedef {import("./api.js").Job} Job */

export const audio = new Audio();
audio.preload = "metadata";

/** Puts a song into the player. @param {Job} job @param {number} track */
export function load(job, track) {
  const output = outputOf(job, track, "audio");
  if (!output) return false;
  const url = at(output.url);
  if (audio.src !== url) audio.src = url;
  set({ playing: { id: job.id, track } });
  return true;
}

function begin() {
  audio.play().catch((error) => {
    // Other errors tell of a pause or of another song.
    if (error.name === "NotSupportedError") toast("The sound cannot be played: it is gone, or of a format that this browser does not know.");
  });
}

/** Plays a song, or pauses it if it sounds. @param {Job} job @param {number} track */
export function toggle(job, track) {
  const isThis = state.playing?.id === job.id && state.playing.track === track;
  if (isThis && !audio.paused) return audio.pause();
  if (load(job, track)) begin();
}

/** Pauses or goes on. */
export function pauseOrPlay() {
  if (!state.playing) {
    const job = state.jobs.find((one) => tracksOf(one).length > 0);
    if (job) toggle(job, tracksOf(job)[0].track);
  } else if (audio.paused) begin();
  else audio.pause();
}

/** @param {number} seconds */
export function seek(seconds) {
  const end = Number.isFinite(audio.duration) ? audio.duration : Infinity;
  audio.currentTime = Math.min(Math.max(0, seconds), end);
}

/** @param {string} name @param {() => void} listener */
function useEvents(name, listener) {
  useEffect(() => {
    const names = name.split(" ");
    for (const one of names) audio.addEventListener(one, listener);
    return () => names.forEach((one) => audio.removeEventListener(one, listener));
  }, []);
}

/** The position, the length and whether it sounds; drawn again as they change. */
export function usePlayer() {
  const [, tick] = useState(0);
  useEvents("timeupdate seeked durationchange play pause ended emptied volumechange", () =>
    tick((/** @type {number} */ n) => n + 1));
  const length = Number.isFinite(audio.duration) ? audio.duration : 0;
  return { time: audio.currentTime, length, isOn: !audio.paused };
}

export function Bar() {
  const { time, length, isOn } = usePlayer();
  const { playing } = state;
  const job = state.jobs.find((one) => one.id === playing?.id);
  if (!playing || !job) return null;
  const songs = tracksOf(job).length;
  const name = songs > 1 ? `${nameOf(job)} (${playing.track})` : nameOf(job);
  return html`<section class="bar" aria-label="Player">
    <button class="round main" onClick=${pauseOrPlay} aria-label=${isOn ? "Pause" : "Play"}>
      <${Icon} name=${isOn ? "pause" : "play"} />
    </button>
    <button class="plain name" onClick=${() => show(playing.id, playing.track)} aria-label=${`Show ${name}`}>${name}</button>
    <span class="time">${clock(time)}</span>
    <input type="range" class="position" aria-label="Position" aria-valuetext=${`${clock(time)} of ${clock(length)}`}
      min="0" max=${length || 1} step="0.1" value=${time}
      onInput=${(/** @type {any} */ event) => seek(Number(event.target.value))} />
    <span class="time">${clock(length)}</span>
    <input type="range" class="volume" aria-label="Volume" min="0" max="1" step="0.05" value=${audio.volume}
      onInput=${(/** @type {any} */ event) => { audio.volume = Number(event.target.value); }} />
  </section>`;
}

/** Opens the card of a song. @param {string} id @param {number} track */
export function show(id, track) {
  set({ open: { id, track } });
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  requestAnimationFrame(() => document.getElementById(`card-${id}`)
    ?.scrollIntoView({ block: "nearest", behavior: isStill ? "auto" : "smooth" }));
}
