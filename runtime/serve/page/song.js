// @ts-check
// The form for a song: a description, words, and everything else one click away.

import { ApiError } from "./api.js";
import { submit } from "./live.js";
import { More, requestOf, songModel } from "./more.js";
import { reveal, Wrong } from "./said.js";
import { Dropped, sourceOf } from "./source.js";
import state, { say, set, write } from "./state.js";
import { html, useRef, useState } from "./vendor/htm-preact.js";

const SECTIONS = ["verse", "chorus", "bridge", "inst", "outro"];

export function Song() {
  const lyrics = useRef(/** @type {any} */ (null));
  const [wrong, setWrong] = useState(/** @type {import("./api.js").Reason | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const { song } = state;
  const needsWords = !song.caption && !song.lyrics && !state.source;

  const insert = (/** @type {string} */ name) => {
    const field = lyrics.current;
    const { selectionStart: from, selectionEnd: to, value } = field;
    const before = value.slice(0, from);
    const gap = before === "" || before.endsWith("\n\n") ? "" : before.endsWith("\n") ? "\n" : "\n\n";
    // At once, because the keys that follow belong to the field.
    field.setRangeText(`${gap}[${name}]\n`, from, to, "end");
    field.focus();
    write("song", { lyrics: field.value });
  };

  const make = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (isBusy || needsWords) return;
    setBusy(true);
    try {
      await submit({ request: { ...requestOf(song), ...sourceOf(state.source) } });
      setWrong(null);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setWrong(error.reason);
      say(`Not accepted: ${error.reason.message}`);
      if (error.status === 401) set({ needsKey: true });
      reveal(document.getElementById(`song-${error.reason.param}`));
    }
    setBusy(false);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void make(event);
  };
  return html`<form class="make" novalidate onSubmit=${make} onKeyDown=${keys}>
    <label for="song-caption">Describe the song</label>
    <textarea id="song-caption" rows="3" maxlength="511" placeholder="slow felt piano, rain, a warm voice close by"
      value=${song.caption ?? ""} onInput=${(/** @type {any} */ event) => write("song", { caption: event.target.value })}></textarea>
    <div class="labelled"><label for="song-lyrics">Lyrics</label>
      <label class="check"><input type="checkbox" checked=${Boolean(song.instrumental)}
        onChange=${(/** @type {any} */ event) => write("song", { instrumental: event.target.checked || "" })} /> Instrumental</label></div>
    <textarea id="song-lyrics" ref=${lyrics} rows="8" maxlength="4095" disabled=${Boolean(song.instrumental)}
      placeholder=${song.instrumental ? "No words" : "Words of your song, line by line"}
      value=${song.lyrics ?? ""} onInput=${(/** @type {any} */ event) => write("song", { lyrics: event.target.value })}></textarea>
    <div class="sections" role="group" aria-label="Insert a section">
      ${SECTIONS.map((name) => html`<button type="button" class="chip" key=${name} disabled=${Boolean(song.instrumental)}
        onClick=${() => insert(name)}>[${name}]</button>`)}
    </div>
    <${Dropped} />
    <${More} model=${songModel()} />
    ${wrong && html`<${Wrong} reason=${wrong} />`}
    <button class="main wide" disabled=${needsWords} aria-disabled=${isBusy}>${isBusy ? "Sending…" : "Make the song"}</button>
  </form>`;
}
