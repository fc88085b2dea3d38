// @ts-check
// The page. Text of requests and answers is always a text node, never markup.

import { Card } from "./card.js";
import { Compare } from "./compare.js";
import { isActive, nameOf, size } from "./format.js";
import { Icon } from "./icons.js";
import "./keys.js";
import { refresh } from "./live.js";
import { Bar } from "./player.js";
import { Queue } from "./queue.js";
import { Song } from "./song.js";
import { useDrop } from "./source.js";
import { Speech } from "./speech.js";
import state, { set, useShared } from "./state.js";
import { Login, Status } from "./status.js";
import { html, render } from "./vendor/htm-preact.js";

const TABS = { song: "Song", speech: "Speech" };

function Tabs() {
  const names = Object.keys(TABS);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    const next = names[(names.indexOf(state.tab) + 1) % names.length];
    set({ tab: next });
    document.getElementById(`tab-${next}`)?.focus();
    event.preventDefault();
  };
  return html`<div class="tabs" role="tablist" aria-label="Make" onKeyDown=${keys}>
    ${Object.entries(TABS).map(([key, label]) => html`<button key=${key} id=${`tab-${key}`} role="tab" aria-selected=${state.tab === key}
      aria-controls="panel" tabindex=${state.tab === key ? 0 : -1} onClick=${() => set({ tab: key })}>${label}</button>`)}
  </div>`;
}

function Library() {
  const words = state.filter.trim().toLowerCase();
  const all = state.jobs.filter((job) => !isActive(job));
  const jobs = all.filter((job) => (!state.onlyLiked || job.liked)
    && (!words || [nameOf(job), job.request.caption, job.request.text, ...job.tags].join(" ").toLowerCase().includes(words)));
  return html`<section aria-labelledby="songs-title" class="library">
    <div class="labelled"><h2 id="songs-title" tabindex="-1">Library</h2>
      ${all.length > 0 && html`<input type="search" aria-label="Find songs" placeholder="Find" value=${state.filter}
        onInput=${(/** @type {any} */ event) => set({ filter: event.target.value })} />
      <button class="round like" aria-pressed=${state.onlyLiked} aria-label="Show liked songs only" onClick=${() => set({ onlyLiked: !state.onlyLiked })}>
        <${Icon} name="heart" full=${state.onlyLiked} /></button>`}</div>
    ${all.length === 0 && state.isLoaded && html`<p class="empty">Songs appear here and stay on the server. Describe one, and press “Make the song”.</p>`}
    ${all.length > 0 && jobs.length === 0 && html`<p class="empty">No song fits.</p>`}
    <ul class="cards">${jobs.map((job) => html`<${Card} key=${job.id} job=${job} />`)}</ul>
    ${all.length >= state.shown && state.shown < 500 && html`<button class="quiet" onClick=${() => { set({ shown: state.shown + 50 }); void refresh(); }}>Show older ones</button>`}
  </section>`;
}

/** A file on its way. @param {{ name: string, loaded: number, total: number }} props */
function Sending({ name, loaded, total }) {
  const words = loaded < total ? `Sending ${name}, ${size(loaded)} of ${size(total)}` : `Storing ${name}`;
  return html`<div class="toast sending"><span>${words}</span>
    <progress aria-label=${`Sending ${name}`} max=${total || 1} value=${loaded}></progress></div>`;
}

function App() {
  useShared();
  const isOver = useDrop();
  const head = html`<header><h1><img src="page/icon.svg" alt="" width="28" height="28" />acestep</h1><${Status} /></header>`;
  const live = html`<div class="unseen" role="status" aria-live="polite">${state.said}</div>`;
  if (state.needsKey) return html`${head}<${Login} />${live}`;
  return html`${head}
    <main>
      <div class="form"><${Tabs} /><div id="panel" role="tabpanel" aria-labelledby=${`tab-${state.tab}`}>
        ${state.tab === "song" ? html`<${Song} />` : html`<${Speech} />`}</div></div>
      <div class="lists"><${Queue} /><${Library} /></div>
    </main>
    <div class="bottom">
      ${state.sending && html`<${Sending} ...${state.sending} />`}
      ${state.toast && html`<div class="toast"><span>${state.toast.text}</span>${state.toast.undo && html`<button onClick=${state.toast.undo}>Undo</button>`}</div>`}
      ${state.compared.length > 0 ? html`<${Compare} />` : html`<${Bar} />`}
    </div>
    ${isOver && html`<div class="over" aria-hidden="true">Drop the sound here</div>`}
    ${live}`;
}

render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
void refresh();
