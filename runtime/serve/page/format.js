// @ts-check
// Words and numbers for people.

/** @typedef {import("./api.js").Job} Job */

/** @param {number | undefined | null} seconds */
export function clock(seconds) {
  if (seconds === undefined || seconds === null || !Number.isFinite(seconds)) return "–";
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** @param {number} seconds */
export function about(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return `${Math.round(seconds / 60)} min`;
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${Math.round(bytes / 1e3)} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** @param {number} millis */
export function when(millis) {
  const date = new Date(millis);
  const isToday = date.toDateString() === new Date().toDateString();
  /** @type {Intl.DateTimeFormatOptions} */
  const form = isToday
    ? { hour: "2-digit", minute: "2-digit" }
    : { year: date.getFullYear() === new Date().getFullYear() ? undefined : "numeric", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
  return date.toLocaleString(undefined, form);
}

/** @param {string} text @param {number} most */
function shortened(text, most) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** The name of a job on its card. @param {Job} job */
export function nameOf(job) {
  if (job.title) return job.title;
  const { caption, text, lyrics } = job.request;
  const words = caption || text || job.resolved?.caption || lyrics;
  if (words) return shortened(String(words), 60);
  return { understand: "What a song is", speak: "Speech", voice: "Kept voice" }[job.kind] ?? "Untitled";
}

/** The second line of a card. @param {Job} job */
export function wordsOf(job) {
  const { caption, text } = job.request;
  const words = shortened(String(caption || text || ""), 160);
  return words === nameOf(job) ? "" : words;
}

/** @param {Job} job */
export const isActive = (job) => ["queued", "running", "cancelling"].includes(job.state);

/** @param {Job} job */
export function tracksOf(job) {
  return job.outputs.filter((output) => output.content === "audio");
}

/** @param {Job} job @param {number} track @param {string} content */
export function outputOf(job, track, content) {
  return job.outputs.find((output) => output.track === track && output.content === content);
}

/** The state of a job in words. @param {Job} job @param {number | undefined} left */
export function stageOf(job, left) {
  if (job.state === "queued") {
    if (!job.position) return "Waiting";
    return job.position === 1 ? "Next in the queue" : `Number ${job.position} in the queue`;
  }
  if (job.state === "cancelling") return "Stopping after this step";
  const { stage, unit, done, total } = job.progress;
  if (!stage) return "Beginning";
  const steps = total > 0 ? `, ${unit || "step"} ${Math.min(done, total)} of ${total}` : "";
  const rest = left !== undefined && left > 0 ? `, about ${about(left)} left` : "";
  return `${stage[0].toUpperCase()}${stage.slice(1)}${steps}${rest}`;
}

/**
 * The lines of an LRC file.
 * @param {string} text
 * @returns {{ at: number, text: string }[]}
 */
export function lines(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = /^\s*\[(\d+):(\d+(?:\.\d+)?)\](.*)$/.exec(line);
    if (match) found.push({ at: Number(match[1]) * 60 + Number(match[2]), text: match[3].trim() });
  }
  return found.sort((a, b) => a.at - b.at);
}

/**
 * The differences between a request and what was made of it.
 * @param {Record<string, any>} asked @param {Record<string, any> | null} made
 */
export function changes(asked, made) {
  const show = (/** @type {any} */ value) =>
    value === undefined || value === null ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);
  const found = [];
  for (const [key, value] of Object.entries(made ?? {})) {
    if (value === null || value === "" || show(value) === show(asked[key])) continue;
    if (Array.isArray(value) && value.length === 0) continue;
    found.push({ key, asked: show(asked[key]), made: shortened(show(value), 400), isNew: asked[key] === undefined });
  }
  // Changed wishes come before values that nobody asked for.
  return found.sort((a, b) => Number(a.isNew) - Number(b.isNew));
}
