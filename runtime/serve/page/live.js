// @ts-check
// Keeps the cards as the server has them: events of the job that runs, and a look at all jobs now and
// then, which finds jobs of other tabs and works where events do not.

import { at, call, read, ApiError } from "./api.js";
import { isActive, nameOf } from "./format.js";
import state, { say, set } from "./state.js";

/** @typedef {import("./api.js").Job} Job */

/** Time between two looks, in milliseconds. */
const BUSY = 1500;
const IDLE = 4000;

/** @type {{ id: string, source: EventSource } | null} */
let following = null;
/** Other tabs of this browser hear of changes at once. */
const tabs = new BroadcastChannel("acestep");
tabs.addEventListener("message", () => void refresh());

let timer = 0;
let looks = 0;
/** @type {Record<string, { stage: string, at: number, done: number }>} */
const begins = {};
let saidAt = 0;

/** Reads everything again, at once. @param {boolean} [withServer] true: models and voices too */
export async function refresh(withServer = false) {
  clearTimeout(timer);
  const look = ++looks;
  try {
    const jobs = await listed();
    const isFresh = withServer || state.server === null || !state.server.ready || !state.isReached || look % 8 === 0;
    const server = isFresh || jobs.some(isActive) ? await read("v1/server") : state.server;
    if (look === looks && !state.isReached) say("The connection is back.");
    if (look === looks) take(jobs, { server, isReached: true, needsKey: false, isLoaded: true });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) set({ needsKey: true, isReached: true });
    else {
      if (state.isReached) say("The connection to the server is lost.");
      set({ isReached: false });
    }
  }
  if (look === looks) again();
}

/**
 * The newest jobs. If there are more than are shown, jobs that ended hide none that wait or run, nor the reverse.
 * @returns {Promise<Job[]>}
 */
async function listed() {
  const newest = async (/** @type {string} */ query) => (await read(`v1/jobs?${query}`)).jobs;
  const { shown } = state;
  const jobs = await newest(`limit=${shown}`);
  if (jobs.length < shown) return jobs;
  const known = new Map();
  // In the order of a job's life: one that goes on between two answers is in the later one.
  for (const query of ["queued&limit=500", "running,cancelling&limit=500", `done,failed,cancelled&limit=${shown}`]) {
    for (const job of await newest(`state=${query}`)) known.set(job.id, job);
  }
  return [...known.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
}

function again() {
  clearTimeout(timer);
  // Events tell of the job that runs, so a look is urgent only without them.
  const isBusy = !state.isReached || (!following && state.jobs.some(isActive));
  timer = setTimeout(() => void refresh(), isBusy ? BUSY : IDLE);
}

/** @param {Job[]} jobs @param {Partial<typeof state>} [rest] */
function take(jobs, rest = {}) {
  const before = new Map(state.jobs.map((job) => [job.id, job]));
  for (const job of jobs) {
    news(before.get(job.id), job);
    measure(job);
  }
  // A job that ends leaves the queue for the library: the focus goes with it.
  const card = document.activeElement?.closest(".card")?.id;
  set({ ...rest, jobs });
  follow();
  if (!card) return;
  setTimeout(() => {
    if (document.activeElement !== document.body) return;
    const button = document.getElementById(card)?.querySelector("button");
    /** @type {HTMLElement | null | undefined} */ (button)?.focus({ preventScroll: true });
  }, 50);
}

/** Puts a job that the server just answered into its place. @param {Job} job */
export function put(job) {
  const isKnown = state.jobs.some((known) => known.id === job.id);
  const jobs = isKnown
    ? state.jobs.map((known) => (known.id === job.id ? job : known))
    : [job, ...state.jobs];
  // A look that began before this answer is older.
  looks++;
  take(job.deleted ? jobs.filter((known) => known.id !== job.id) : jobs);
  again();
}

/** As `put`, for a change that was made here: other tabs hear of it. @param {Job} job */
export function changed(job) {
  put(job);
  tabs.postMessage("changed");
}

/** Tells listeners of the live region about ends. @param {Job | undefined} old @param {Job} job */
function news(old, job) {
  if (!old || old.state === job.state) return;
  const words = /** @type {Record<string, string>} */ ({
    running: "begins",
    done: "is done",
    failed: "failed",
    cancelled: "was cancelled",
  })[job.state];
  if (words) say(`${nameOf(job)} ${words}.`);
  // The list of voices has another one.
  if (job.kind === "voice" && job.state === "done") setTimeout(() => void refresh(true), 0);
}

/**
 * Takes the time left from the server; without one, which needs earlier jobs, estimates that of the stage.
 * @param {Job} job
 */
function measure(job) {
  const { stage, done, total, unit, eta_s: eta } = job.progress;
  const begin = begins[job.id];
  delete state.left[job.id];
  if (job.state !== "running" || (total <= 0 && eta === undefined)) return;
  const now = Date.now();
  const isNew = !begin || begin.stage !== stage || done < begin.done;
  if (isNew) begins[job.id] = { stage, at: now, done };
  if (eta !== undefined) {
    state.left[job.id] = eta;
  } else if (!isNew && done > begin.done) {
    state.left[job.id] = ((now - begin.at) / 1000 / (done - begin.done)) * (total - done);
  }
  if (now - saidAt > 10000 && done > 0) {
    saidAt = now;
    say(`${nameOf(job)}: ${unit || "step"} ${done} of ${total}.`);
  }
}

/** Listens to the job that runs. One stream only: browsers allow six connections to a server. */
function follow() {
  const job = state.jobs.find((one) => ["running", "cancelling"].includes(one.state))
    ?? state.jobs.filter(isActive).at(-1);
  if (following && following.id === job?.id) return;
  following?.source.close();
  following = null;
  if (!job) return;
  const source = new EventSource(at(`v1/jobs/${job.id}/events`));
  following = { id: job.id, source };
  const load = () => void read(`v1/jobs/${job.id}`).then(put, () => {});
  source.addEventListener("progress", (event) => {
    const known = state.jobs.find((one) => one.id === job.id);
    if (known) update({ ...known, progress: JSON.parse(event.data) });
  });
  source.addEventListener("notice", (event) => {
    const known = state.jobs.find((one) => one.id === job.id);
    const { text } = JSON.parse(event.data);
    if (known && !known.notices.includes(text)) update({ ...known, notices: [...known.notices, text] });
  });
  for (const name of ["state", "track"]) source.addEventListener(name, load);
  source.addEventListener("end", () => {
    source.close();
    // The places of the others in the queue change too.
    void refresh();
  });
  source.addEventListener("error", () => {
    // Looks go on; the next one begins to listen again.
    source.close();
    if (following?.source !== source) return;
    following = null;
    clearTimeout(timer);
    timer = setTimeout(() => void refresh(), 500);
  });
}

/** @param {Job} job */
function update(job) {
  measure(job);
  set({ jobs: state.jobs.map((known) => (known.id === job.id ? job : known)) });
}

/** @param {Record<string, any>} job @returns {Promise<Job>} */
export async function submit(job) {
  const made = await call("POST", "v1/jobs", job);
  changed(made);
  say(`${nameOf(made)} is in the queue.`);
  return made;
}

/** @param {Job} job @param {Record<string, any>} marks */
export async function mark(job, marks) {
  changed(await call("PATCH", `v1/jobs/${job.id}`, marks));
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) void refresh();
});
