// @ts-check
// The server's API, by addresses relative to the page, so that a proxy may put it into a folder.

import { set } from "./state.js";

/**
 * @typedef {{ track: number, content: string, name: string, media_type: string, bytes: number,
 *   url: string, seed?: number, seconds?: number }} Output
 * @typedef {{ stage: string, unit: string, done: number, total: number, eta_s?: number }} Progress
 * @typedef {{ code: string, message: string, param?: string | null, hint?: string | null }} Reason
 * @typedef {{ id: string, kind: string, model: string | null, state: string, position?: number,
 *   request: Record<string, any>, resolved: Record<string, any> | null, created: number,
 *   started: number | null, ended: number | null, progress: Progress, notices: string[],
 *   error: Reason | null, outputs: Output[], title: string | null, liked: boolean,
 *   tags: string[], deleted: number | null }} Job
 * @typedef {{ id: string, family: string, is_default: boolean, about: string, supports: string[],
 *   defaults: Record<string, any>, speech?: Talk }} Model
 * @typedef {{ sample_rate: number, fields: string[], default_language?: string,
 *   has_word_times: boolean, can_append: boolean }} Talk
 * @typedef {{ id: string, model: string, is_kept: boolean }} Voice
 * @typedef {{ text: string, command: string }} Missing
 * @typedef {{ version: string, ready: boolean, not_warm: string | null, models: Model[], voices: Voice[],
 *   adapters: string[], missing: Missing[], device: string | null,
 *   jobs: { queued: number, running: number, mean_seconds?: number | null },
 *   limits: { upload_bytes: number, audio_seconds: number } }} Properties
 */

/** An answer that is an error, or no answer: then the status is 0. */
export class ApiError extends Error {
  /** @param {number} status @param {Reason} reason */
  constructor(status, reason) {
    super(reason.message);
    this.status = status;
    this.reason = reason;
  }
}

/** @param {string} path */
export const at = (path) => new URL(path.replace(/^\//, ""), document.baseURI).href;

/**
 * An answer and its content. The connection may be lost before both.
 * @template T
 * @param {string} path @param {(answer: Response) => Promise<T>} content @param {RequestInit} [options]
 * @returns {Promise<[Response, T]>}
 */
async function fetched(path, content, options) {
  try {
    const answer = await fetch(at(path), options);
    return [answer, await content(answer)];
  } catch {
    throw unreachable();
  }
}

const unreachable = () => new ApiError(0, { code: "unreachable", message: "The server does not answer." });

/**
 * @param {string} method @param {string} path @param {any} [body]
 * @returns {Promise<any>}
 */
export async function call(method, path, body) {
  /** @type {RequestInit} */
  const options = { method, cache: "no-store" };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  const [answer, text] = await fetched(path, (one) => one.text(), options);
  return valueOf(answer.status, text);
}

/** The content of an answer. @param {number} status @param {string} text @returns {any} */
function valueOf(status, text) {
  let value;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = null;
  }
  // A proxy may answer in place of the server.
  if (status < 200 || status > 299 || (text && value === null)) {
    const message = `The answer cannot be read (status ${status}).`;
    throw new ApiError(status, value?.error ?? { code: "failed", message });
  }
  return value;
}

/** @param {string} path */
export const read = (path) => call("GET", path);

/**
 * Sends a file, and shows how far it is: `fetch` does not tell.
 * @param {Blob} blob @param {string} name @returns {Promise<string>} the id
 */
export async function upload(blob, name) {
  const form = new FormData();
  form.append("file", blob, name);
  const request = new XMLHttpRequest();
  const ended = new Promise((resolve) => request.addEventListener("loadend", resolve));
  request.upload.addEventListener("progress", ({ loaded, total }) => set({ sending: { name, loaded, total } }));
  request.open("POST", at("v1/files"));
  request.send(form);
  await ended;
  set({ sending: null });
  if (request.status === 0) throw unreachable();
  return valueOf(request.status, request.responseText).id;
}

/**
 * Sends a result of the server back as a source, as requests name only files that were sent.
 * @param {Output} output
 */
export async function asSource(output) {
  const [answer, sound] = await fetched(output.url, (one) => one.blob());
  if (!answer.ok) {
    throw new ApiError(answer.status, { code: "gone", message: "The sound of this song is gone." });
  }
  return upload(sound, output.name);
}
