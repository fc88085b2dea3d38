// @ts-check
// The waveform of the open song: position by click and keys, a part by drag.

import { at, read } from "./api.js";
import { clock } from "./format.js";
import { audio, load, seek, usePlayer } from "./player.js";
import { html, useEffect, useRef } from "./vendor/htm-preact.js";
import Regions from "./vendor/regions.js";
import WaveSurfer from "./vendor/wavesurfer.js";

/**
 * @typedef {import("./api.js").Job} Job
 * @typedef {import("./api.js").Output} Output
 * @typedef {{ start: number, end: number }} Part
 */

/** The picture of a sound: pairs of the smallest and the largest sample. @param {Output} output */
async function picture(output) {
  const value = await read(output.url);
  const flat = (Array.isArray(value) ? value : value.peaks ?? value.data ?? []).flat();
  // A file of integers has its scale beside it.
  const most = value.bits ? 2 ** (value.bits - 1) : 1;
  return flat.map((/** @type {number} */ sample) => sample / most);
}

/** @param {string} name */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * The policy of the page allows no `<style>` elements. The rules of the one in the waveform are taken
 * over as a sheet, which is allowed.
 * @param {any} surfer
 */
function styled(surfer) {
  const root = surfer.getWrapper().getRootNode();
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(root.querySelector("style")?.textContent ?? "");
  root.adoptedStyleSheets = [sheet];
}

/**
 * @param {{ job: Job, output: Output, peaks: Output | undefined, part: Part | null,
 *   onPart: (part: Part) => void }} props
 */
export function Wave({ job, output, peaks, part, onPart }) {
  const box = useRef(/** @type {any} */ (null));
  const made = useRef(/** @type {any} */ ({}));
  made.current.onPart = onPart;
  const { time, length } = usePlayer();
  const seconds = output.seconds ?? length;

  useEffect(() => {
    let isOver = false;
    load(job, output.track);
    const draw = async () => {
      const data = peaks ? await picture(peaks).catch(() => null) : null;
      if (isOver) return;
      const regions = Regions.create();
      const surfer = WaveSurfer.create({
        container: box.current,
        media: audio,
        url: data ? undefined : at(output.url),
        peaks: data ? [data] : undefined,
        duration: data ? output.seconds : undefined,
        height: 96,
        barWidth: 2,
        barGap: 1,
        barRadius: 2,
        normalize: true,
        cursorWidth: 2,
        hideScrollbar: true,
        dragToSeek: false,
        waveColor: colour("--wave"),
        progressColor: colour("--accent"),
        cursorColor: colour("--ink"),
        plugins: [regions],
      });
      styled(surfer);
      surfer.on("error", () => {});
      regions.enableDragSelection({ color: colour("--part") });
      const tell = (/** @type {any} */ region) => {
        for (const other of regions.getRegions()) if (other !== region) other.remove();
        made.current.onPart({ start: round(region.start), end: round(region.end) });
      };
      regions.on("region-created", tell);
      regions.on("region-updated", tell);
      Object.assign(made.current, { surfer, regions });
      surfer.on("ready", () => mark(made.current, made.current.part));
    };
    void draw();
    const theme = matchMedia("(prefers-color-scheme: dark)");
    const paint = () => made.current.surfer?.setOptions({
      waveColor: colour("--wave"), progressColor: colour("--accent"), cursorColor: colour("--ink"),
    });
    theme.addEventListener("change", paint);
    return () => {
      isOver = true;
      theme.removeEventListener("change", paint);
      made.current.surfer?.destroy();
      made.current = {};
    };
  }, [output.url]);

  made.current.part = part;
  useEffect(() => mark(made.current, part), [part?.start, part?.end]);

  const keys = (/** @type {KeyboardEvent} */ event) => {
    const now = audio.currentTime;
    const shift = event.shiftKey;
    const step = shift ? 1 : 5;
    const at = part ?? { start: round(now), end: round(Math.min(now + 5, seconds)) };
    const way = { ArrowLeft: -step, ArrowRight: step }[event.key];
    if (way !== undefined && shift) onPart(ordered({ start: at.start, end: clamp(at.end + way, seconds) }));
    else if (way !== undefined) seek(now + way);
    else if (event.key === "Home") seek(0);
    else if (event.key === "End") seek(seconds);
    else if (event.key === "[") onPart(ordered({ start: round(now), end: Math.max(at.end, round(now) + 1) }));
    else if (event.key === "]") onPart(ordered({ start: Math.min(at.start, round(now)), end: round(now) }));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return html`<div class="wave" ref=${box} role="slider" tabindex="0" aria-label="Position in the song"
    aria-valuemin="0" aria-valuemax=${Math.round(seconds)} aria-valuenow=${Math.round(time)}
    aria-valuetext=${`${clock(time)} of ${clock(seconds)}`} onKeyDown=${keys}></div>`;
}

/** Draws a part that fields or keys chose. @param {any} made @param {Part | null} part */
function mark({ regions }, part) {
  if (!regions) return;
  if (!part) {
    regions.clearRegions();
    return;
  }
  const shown = regions.getRegions()[0];
  if (shown && Math.abs(shown.start - part.start) < 0.02 && Math.abs(shown.end - part.end) < 0.02) return;
  if (shown) shown.setOptions({ start: part.start, end: part.end });
  else regions.addRegion({ ...part, color: colour("--part") });
}

/** @param {number} seconds */
export const round = (seconds) => Math.round(seconds * 100) / 100;

/** @param {number} value @param {number} most */
const clamp = (value, most) => round(Math.min(Math.max(0, value), most));

/** @param {Part} part */
const ordered = (part) => (part.start <= part.end ? part : { start: part.end, end: part.start });
