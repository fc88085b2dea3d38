// @ts-check
// Two versions at equal loudness, switched without a gap: both play, one is heard.

import { at } from "./api.js";
import { clock, nameOf, outputOf } from "./format.js";
import { stopHearing } from "./hear.js";
import { Icon } from "./icons.js";
import { audio } from "./player.js";
import state, { set } from "./state.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

/** @typedef {import("./state.js").Version} Version */

/** Adds a version to the comparison, or takes it out. @param {Version} version */
export function choose(version) {
  const isIn = isCompared(version);
  const others = state.compared.filter((one) => !isSame(one, version));
  set({ compared: isIn ? others : [...others, version].slice(-2) });
}

/** @param {Version} a @param {Version} b */
const isSame = (a, b) => a.id === b.id && a.track === b.track;

/** @param {Version} version */
export const isCompared = (version) => state.compared.some((one) => isSame(one, version));

/** Mean loudness of a sound, as the root of the mean square. @param {AudioBuffer} buffer */
function loudness(buffer) {
  let sum = 0;
  for (let channel = 0; channel < buffer.numberOfChannels; channel++) {
    for (const sample of buffer.getChannelData(channel)) sum += sample * sample;
  }
  return Math.sqrt(sum / (buffer.length * buffer.numberOfChannels)) || 1e-9;
}

/** The two sounds, ready to play. */
class Pair {
  /** @param {AudioContext} context @param {AudioBuffer[]} buffers */
  constructor(context, buffers) {
    this.context = context;
    this.buffers = buffers;
    const levels = buffers.map(loudness);
    // The louder one becomes softer, so nothing clips.
    this.gains = levels.map((level) => Math.min(...levels) / level);
    this.length = Math.max(...buffers.map((buffer) => buffer.duration));
    this.heard = 0;
    this.offset = 0;
    this.begin = 0;
    this.isOn = false;
    /** @type {AudioBufferSourceNode[]} */ this.sources = [];
    /** @type {GainNode[]} */ this.nodes = [];
  }

  get time() {
    const time = this.isOn ? this.offset + this.context.currentTime - this.begin : this.offset;
    return Math.min(time, this.length);
  }

  play() {
    this.stop();
    if (this.offset >= this.length) this.offset = 0;
    this.begin = this.context.currentTime;
    this.isOn = true;
    void this.context.resume();
    this.buffers.forEach((buffer, index) => {
      const source = new AudioBufferSourceNode(this.context, { buffer });
      const node = new GainNode(this.context, { gain: index === this.heard ? this.gains[index] : 0 });
      source.connect(node).connect(this.context.destination);
      source.start(0, Math.min(this.offset, buffer.duration));
      this.sources[index] = source;
      this.nodes[index] = node;
    });
  }

  stop() {
    this.offset = this.time;
    this.isOn = false;
    for (const source of this.sources) source.stop();
    this.sources = [];
  }

  /** @param {number} index */
  hear(index) {
    this.heard = index;
    this.nodes.forEach((node, other) => {
      node.gain.setTargetAtTime(other === index ? this.gains[other] : 0, this.context.currentTime, 0.01);
    });
  }

  /** @param {number} seconds */
  seek(seconds) {
    const wasOn = this.isOn;
    this.stop();
    this.offset = seconds;
    if (wasOn) this.play();
  }
}

/** @param {number} gain */
const decibels = (gain) => (gain > 0.999 ? "as it is" : `${(20 * Math.log10(gain)).toFixed(1)} dB`);

export function Compare() {
  const { compared } = state;
  const pair = useRef(/** @type {Pair | null} */ (null));
  const [, tick] = useState(0);
  const [wrong, setWrong] = useState("");
  const versions = compared.map((one) => ({ ...one, job: state.jobs.find((job) => job.id === one.id) }));
  const urls = versions.map(({ job, track }) => job && outputOf(job, track, "audio")?.url);
  const isReady = urls.length === 2 && urls.every(Boolean);
  useEffect(() => {
    if (!isReady) return undefined;
    let isOver = false;
    const context = new AudioContext();
    const fetched = async (/** @type {any} */ url) =>
      context.decodeAudioData(await (await fetch(at(url))).arrayBuffer());
    const rest = () => pair.current?.stop();
    audio.pause();
    audio.addEventListener("play", rest);
    setWrong("");
    Promise.all(urls.map(fetched)).then(
      (buffers) => {
        if (!isOver) pair.current = new Pair(context, buffers);
      },
      () => isOver || setWrong("One of the two cannot be loaded, or this browser cannot decode it."),
    );
    const timer = setInterval(() => {
      const { current } = pair;
      if (current?.isOn && current.time >= current.length) current.stop();
      tick((/** @type {number} */ n) => n + 1);
    }, 200);
    return () => {
      isOver = true;
      clearInterval(timer);
      audio.removeEventListener("play", rest);
      pair.current?.stop();
      pair.current = null;
      void context.close();
    };
  }, [urls.join()]);
  if (compared.length === 0) return null;
  const now = pair.current;
  const again = () => tick((/** @type {number} */ n) => n + 1);
  const close = html`<button class="round" aria-label="End the comparison" onClick=${() => set({ compared: [] })}><${Icon} name="close" /></button>`;
  if (!isReady) {
    return html`<section class="bar compare" aria-label="Comparison"><p>Choose a second song with “Compare”.</p>${close}</section>`;
  }
  return html`<section class="bar compare" aria-label="Comparison" data-gains=${now?.gains.join(" ")}>
    <button class="round main" disabled=${!now} aria-label=${now?.isOn ? "Pause the comparison" : "Play the comparison"}
      onClick=${() => { if (now?.isOn) now.stop(); else { audio.pause(); stopHearing(); now?.play(); } again(); }}>
      <${Icon} name=${now?.isOn ? "pause" : "play"} /></button>
    ${versions.map(({ job, track }, index) => html`<button class="choice" key=${`${job?.id}/${track}`}
      aria-pressed=${(now?.heard ?? 0) === index} onClick=${() => { now?.hear(index); again(); }}>
      <b>${"AB"[index]}</b> ${job ? nameOf(job) : ""} (${track}) <small>${now ? decibels(now.gains[index]) : wrong ? "" : "loading"}</small></button>`)}
    <span class="time">${clock(now?.time)}</span>
    <input type="range" class="position" aria-label="Position in both" min="0" max=${now?.length ?? 1} step="0.1"
      value=${now?.time ?? 0} onInput=${(/** @type {any} */ event) => { now?.seek(Number(event.target.value)); again(); }} />
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}${close}
  </section>`;
}
