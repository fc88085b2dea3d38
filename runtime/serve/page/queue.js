// @ts-check
// Jobs that wait or run: position, stage, steps, time left, cancel.

import { call, ApiError } from "./api.js";
import { about, clock, isActive, nameOf, stageOf } from "./format.js";
import { canHear, hear, stopHearing } from "./hear.js";
import { changed } from "./live.js";
import { Notices } from "./said.js";
import state, { toast } from "./state.js";
import { html } from "./vendor/htm-preact.js";

/** @typedef {import("./api.js").Job} Job */

/** @param {Job} job */
async function cancel(job) {
  if (job.state === "cancelling") return;
  try {
    changed(await call("POST", `v1/jobs/${job.id}/cancel`));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(error.reason.message);
  }
}

/** The button that lets a job be heard while it is made. @param {{ job: Job }} props */
function Listen({ job }) {
  const isOn = state.hearing?.id === job.id;
  const { seconds } = state.hearing ?? { seconds: 0 };
  const words = !isOn ? "Listen" : seconds > 0 ? `Listening, ${clock(seconds)}` : "Waiting for sound";
  return html`<button class="quiet" aria-pressed=${isOn} aria-label=${`Listen to ${nameOf(job)}`}
    onClick=${() => (isOn ? stopHearing() : void hear(job))}>${words}</button>`;
}

export function Queue() {
  const jobs = state.jobs.filter(isActive).reverse();
  if (jobs.length === 0) return null;
  const mean = state.server?.jobs.mean_seconds;
  return html`<section aria-labelledby="queue-title" class="queue">
    <h2 id="queue-title">Now</h2>
    <ul class="cards">${jobs.map((job) => {
      const { done, total } = job.progress;
      const verb = job.state === "cancelling" ? "Stopping" : "Cancel";
      const isWaiting = job.state === "queued";
      const wait = isWaiting && mean && job.position ? `, begins in about ${about(mean * job.position)}` : "";
      return html`<li key=${job.id} class=${isWaiting ? "card waiting" : "card active"} id=${`card-${job.id}`}>
        <div class="labelled"><h3>${nameOf(job)}</h3>
          ${canHear(job) && html`<${Listen} job=${job} />`}
          <button class="quiet" aria-disabled=${job.state === "cancelling"} onClick=${() => cancel(job)}
            aria-label=${`${verb} ${nameOf(job)}`}>${verb}</button></div>
        ${!isWaiting && html`<progress aria-label=${`Progress of ${nameOf(job)}`} max=${total || 1}
          value=${total > 0 ? done : undefined}></progress>`}
        <p class="meta">${stageOf(job, state.left[job.id])}${wait}</p>
        <${Notices} notices=${job.notices} />
      </li>`;
    })}</ul>
  </section>`;
}
