// @ts-check
// Sound of a job while it is made: pieces of the stream are played one after the other, and the finished
// file takes over where the ear is. An `<audio>` element may wait for the end of such a stream.

import { at, call, ApiError } from "./api.js";
import { nameOf } from "./format.js";
import { changed } from "./live.js";
import { audio, load } from "./player.js";
import state, { say, set, toast } from "./state.js";

/** @typedef {import("./api.js").Job} Job */

/** Time before the first sound and after a gap, so that one late piece is not heard. */
const AHEAD = 0.15;
/** What is left of a preview is heard to its end if it is shorter than this. */
const REST = 1;

/** @type {(() => void) | null} */
let end = null;

/** True for a job that can be heard while it is made. @param {Job} job */
export const canHear = (job) => job.state === "running" && ["generate", "speak", "decode"].includes(job.kind);

/** Ends what is heard of a job that is made. */
export function stopHearing() {
  end?.();
  end = null;
  if (state.hearing) set({ hearing: null });
}

// One sound at a time: a song in the player ends what is heard.
audio.addEventListener("play", () => stopHearing());

/** An output of sound, to be made in a click: browsers allow no sound without one. */
export const speakers = () => new AudioContext();

/** Hears a job from its beginning, as soon as it has sound. @param {Job} job @param {AudioContext} [context] */
export async function hear(job, context = speakers()) {
  stopHearing();
  audio.pause();
  const asking = new AbortController();
  const volume = context.createGain();
  volume.connect(context.destination);
  const follow = () => { volume.gain.value = audio.volume; };
  follow();
  audio.addEventListener("volumechange", follow);
  let isOver = false;
  const mine = () => {
    if (isOver) return;
    isOver = true;
    asking.abort();
    audio.removeEventListener("volumechange", follow);
    void context.close();
  };
  end = mine;
  set({ hearing: { id: job.id, seconds: 0 } });
  try {
    await play(job, asking.signal, context, volume, () => isOver);
  } catch (error) {
    if (isOver) return;
    if (!(error instanceof ApiError) && !(error instanceof TypeError)) throw error;
    toast(error instanceof ApiError ? error.reason.message : "The sound ended early.");
  } finally {
    mine();
    if (end === mine) stopHearing();
  }
}

/**
 * @param {Job} job @param {AbortSignal} signal @param {AudioContext} context @param {AudioNode} output
 * @param {() => boolean} isOver
 */
async function play(job, signal, context, output, isOver) {
  const answer = await fetch(at(`v1/jobs/${job.id}/audio?format=pcm`), { signal, cache: "no-store" });
  if (!answer.ok || !answer.body) {
    const value = await answer.json().catch(() => null);
    throw new ApiError(answer.status, value?.error ?? { code: "failed", message: answer.statusText });
  }
  const rate = Number(answer.headers.get("x-sample-rate"));
  const channels = Number(answer.headers.get("x-channels"));
  const reader = answer.body.getReader();
  say(`You hear ${nameOf(job)} while it is made.`);
  let rest = new Uint8Array(0);
  // The time of the next piece, and the seconds of sound before it.
  let next = 0;
  let seconds = 0;
  const heard = () => Math.max(0, seconds - Math.max(0, next - context.currentTime));
  const show = setInterval(() => {
    if (!isOver() && state.hearing) set({ hearing: { id: job.id, seconds: heard() } });
  }, 250);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || isOver()) break;
      const bytes = new Uint8Array(rest.length + value.length);
      bytes.set(rest);
      bytes.set(value, rest.length);
      const frames = Math.floor(bytes.length / (2 * channels));
      rest = bytes.slice(frames * 2 * channels);
      if (frames === 0) continue;
      const source = new AudioBufferSourceNode(context, { buffer: buffer(bytes, frames, channels, rate, context) });
      source.connect(output);
      if (next < context.currentTime) next = context.currentTime + AHEAD;
      source.start(next);
      next += frames / rate;
      seconds += frames / rate;
    }
    if (isOver()) return;
    await takeOver(job, heard, () => next - context.currentTime, isOver);
  } finally {
    clearInterval(show);
  }
}

/**
 * @param {Uint8Array} bytes @param {number} frames @param {number} channels @param {number} rate
 * @param {BaseAudioContext} context
 */
function buffer(bytes, frames, channels, rate, context) {
  const made = context.createBuffer(channels, frames, rate);
  const samples = new DataView(bytes.buffer);
  for (let channel = 0; channel < channels; channel++) {
    const values = made.getChannelData(channel);
    for (let frame = 0; frame < frames; frame++) {
      values[frame] = samples.getInt16(2 * (frame * channels + channel), true) / 32768;
    }
  }
  return made;
}

/**
 * Puts the finished file into the player, which goes on where the ear is.
 * @param {Job} job @param {() => number} heard @param {() => number} left @param {() => boolean} isOver
 */
async function takeOver(job, heard, left, isOver) {
  const finished = await call("GET", `v1/jobs/${job.id}?wait=10`);
  if (isOver()) return;
  changed(finished);
  if (left() <= REST) {
    // A seam in the last second helps nobody.
    await new Promise((done) => setTimeout(done, 1000 * Math.max(0, left())));
    if (!isOver()) load(finished, 1);
    return;
  }
  if (!load(finished, 1)) return;
  if (audio.readyState < HTMLMediaElement.HAVE_METADATA) {
    // A file that cannot be loaded ends the waiting too.
    const events = ["loadedmetadata", "error", "emptied"];
    await new Promise((done) => events.forEach((name) => audio.addEventListener(name, done, { once: true })));
  }
  if (isOver()) return;
  audio.currentTime = heard();
  await audio.play().catch(() => {});
}
