// @ts-check
// The form for speech. It has the fields that the chosen model takes, and no others.

import { ApiError, upload } from "./api.js";
import { hear, speakers } from "./hear.js";
import { submit } from "./live.js";
import { FORMATS } from "./more.js";
import { reveal, Wrong } from "./said.js";
import state, { say, write } from "./state.js";
import { html, useState } from "./vendor/htm-preact.js";
import { KeepVoice, RemoveVoice } from "./voices.js";

/** @typedef {{ key: string, label: string, min?: number, max?: number, choices?: [string, string][], empty?: string, isFlag?: boolean }} Field */

/** Settings of some models. @type {Field[]} */
const SETTINGS = [
  { key: "cfg_scale", label: "Guidance", min: 0, max: 100 },
  { key: "temperature", label: "Temperature", min: 0, max: 100 },
  { key: "top_k", label: "Top k", min: 0 },
  { key: "top_p", label: "Top p", min: 0, max: 1 },
  { key: "seed", label: "Seed", min: 0 },
  { key: "max_decoder_steps", label: "Most frames of a sentence", min: 1 },
  { key: "audio_format", label: "Format", choices: FORMATS },
  { key: "timestamps", label: "Times of the words", empty: "as JSON", choices: [["srt", "and as SRT"], ["vtt", "and as VTT"]] },
  { key: "exact_prior", label: "Exact prior (slower)", isFlag: true },
];

/** Recordings: of one voice, or of two speakers. @type {{ sound: string, words: string, label: string, isFile: boolean }[]} */
const RECORDINGS = [
  { sound: "reference", words: "transcript", label: "Recording, a few seconds of one voice", isFile: false },
  { sound: "speaker_1", words: "words_1", label: "Recording of speaker 1", isFile: true },
  { sound: "speaker_2", words: "words_2", label: "Recording of speaker 2", isFile: true },
];

/** Files that some texts need. @type {{ key: string, label: string, accept: string }[]} */
const TABLES = [
  { key: "pinyin", label: "Table of Chinese syllables (pinyin-data), for Mandarin", accept: ".txt,text/plain" },
  { key: "open_jtalk", label: "Words of OpenJTalk (JSON) in place of the words above, for Japanese", accept: ".json,application/json" },
];

export function Speech() {
  const { speech, server } = state;
  const [wrong, setWrong] = useState(/** @type {import("./api.js").Reason | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const [files, setFiles] = useState(/** @type {Record<string, File>} */ ({}));
  const models = (server?.models ?? []).filter((model) => model.family === "speech");
  const model = models.find((one) => one.id === speech.model) ?? models.find((one) => one.is_default) ?? models[0];
  if (server && !model) {
    return html`<p class="hint">No model of speech is here. Get one with <code>acestep model pull qwen3-tts-0.6b-custom</code>.</p>`;
  }
  const takes = (/** @type {string} */ field) => (model?.speech?.fields ?? []).includes(field);
  const voices = (server?.voices ?? []).filter((voice) => voice.model === model?.id);
  const languages = (model?.supports ?? []).filter((name) => name !== "auto");
  const usual = model?.speech?.default_language;
  const recordings = RECORDINGS.filter(({ sound }) => takes(sound));
  const settings = SETTINGS.filter(({ key }) => takes(key));
  const tables = TABLES.filter(({ key }) => takes(key));
  const isScript = takes("speaker_1");
  const phonemes = takes("phonemes") && speech.phonemes;
  // They stand in place of the text.
  const isReplaced = Boolean(phonemes || (takes("open_jtalk") && files.open_jtalk));
  const canSpeak = Boolean(speech.text || isReplaced);
  const input = (/** @type {any} */ event) => write("speech", { [event.target.name]: event.target.value });
  const choose = (/** @type {any} */ event) => {
    const { [event.target.name]: _, ...others } = files;
    const [file] = event.target.files;
    setFiles(file ? { ...others, [event.target.name]: file } : others);
  };

  /** The recordings of the form, as their ids, and their words. */
  const recorded = async () => {
    /** @type {Record<string, any>} */
    const request = {};
    for (const { sound, words, isFile } of recordings) {
      if (!files[sound]) continue;
      request[sound] = await upload(files[sound], files[sound].name);
      if (!isFile && speech[words]) request[words] = speech[words];
      if (isFile && files[words]) request[words] = await upload(files[words], files[words].name);
    }
    return request;
  };
  /** What a kept voice needs. */
  const toKeep = async () => {
    const language = languages.includes(speech.language) ? { language: speech.language } : {};
    return { model: model?.id, ...(isScript ? {} : language), ...(await recorded()) };
  };
  /** The request of the form: fields that the model takes, and files as their ids. */
  const requestOf = async () => {
    /** @type {Record<string, any>} */
    const request = isReplaced ? {} : { text: speech.text };
    if (phonemes) request.phonemes = phonemes;
    if (speech.model) request.model = speech.model;
    for (const key of ["voice", "language", "instruct"]) if (takes(key) && speech[key]) request[key] = speech[key];
    for (const { key, choices, isFlag } of settings) {
      if (speech[key]) request[key] = choices || isFlag ? speech[key] : Number(speech[key]);
    }
    if (!voices.some((voice) => voice.id === request.voice)) delete request.voice;
    if (!languages.includes(request.language)) delete request.language;
    Object.assign(request, await recorded());
    for (const { key } of tables) if (files[key]) request[key] = await upload(files[key], files[key].name);
    return request;
  };
  const make = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (isBusy || !canSpeak) return;
    const form = /** @type {any} */ (event.currentTarget);
    setBusy(true);
    // Made in the click: browsers allow no sound without one.
    const context = speech.hear ? speakers() : null;
    try {
      const job = await submit({ kind: "speak", request: await requestOf() });
      setWrong(null);
      if (context) void hear(job, context);
    } catch (error) {
      void context?.close();
      if (!(error instanceof ApiError)) throw error;
      setWrong(error.reason);
      say(`Not accepted: ${error.reason.message}`);
      reveal(form.elements.namedItem(error.reason.param ?? ""));
    }
    setBusy(false);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void make(event);
  };
  return html`<form class="make" novalidate onSubmit=${make} onKeyDown=${keys}>
    <label for="speech-text">Text</label>
    <textarea id="speech-text" name="text" rows="7" placeholder=${isScript ? "[S1] What one says. [S2] What the other answers." : "What shall be said"}
      value=${speech.text ?? ""} onInput=${input}></textarea>
    <div class="grid">
      ${models.length > 1 && html`<label class="two">Model<select name="model" value=${speech.model ?? ""} onChange=${input}>
        <option value="">${models.find((one) => one.is_default)?.id} (default)</option>
        ${models.map((one) => html`<option key=${one.id} value=${one.id}>${one.id}</option>`)}</select></label>`}
      ${takes("voice") && html`<label>Voice<select name="voice" value=${speech.voice ?? ""} onChange=${input}>
        <option value="">the model's own</option>
        ${voices.map((voice) => html`<option key=${voice.id} value=${voice.id}>${voice.id}${voice.is_kept ? " (kept)" : ""}</option>`)}</select></label>`}
      ${takes("language") && html`<label>Language<select name="language" value=${speech.language ?? ""} onChange=${input}>
        <option value="">${usual ? `${usual} (default)` : "automatic"}</option>
        ${languages.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>`}
    </div>
    ${takes("voice") && voices.some((voice) => voice.is_kept && voice.id === speech.voice) && html`<${RemoveVoice} name=${speech.voice} />`}
    ${tables.map(({ key, label, accept }) => html`<label key=${key}>${label}<input type="file" name=${key} accept=${accept} onChange=${choose} /></label>`)}
    ${takes("phonemes") && html`<label for="speech-phonemes">Phonemes in place of the words</label>
    <textarea id="speech-phonemes" name="phonemes" rows="2" placeholder="həˈloʊ, or ni3 hao3 in Mandarin" value=${speech.phonemes ?? ""} onInput=${input}></textarea>`}
    ${takes("instruct") && html`<label for="speech-instruct">Manner</label>
    <textarea id="speech-instruct" name="instruct" rows="2" placeholder="calm, a little slower" value=${speech.instruct ?? ""} onInput=${input}></textarea>`}
    ${recordings.length > 0 && html`<details class="more"><summary>${isScript ? "The voices of two recordings" : "The voice of a recording"}</summary>
      ${recordings.map(({ sound, words, label, isFile }) => html`<div key=${sound}>
        <label>${label}<input type="file" name=${sound} accept="audio/*" onChange=${choose} /></label>
        ${isFile
          ? html`<label>Its words with their times, JSON of an aligner<input type="file" name=${words} accept=".json,application/json" onChange=${choose} /></label>`
          : html`<label>Its words<textarea name=${words} rows="2" value=${speech[words] ?? ""} onInput=${input}></textarea></label>`}
      </div>`)}
      <${KeepVoice} isReady=${Boolean(files[recordings[0].sound])} recordings=${toKeep} onWrong=${setWrong} />
    </details>`}
    ${settings.length > 0 && html`<details class="more"><summary>More settings</summary><div class="grid">
      ${settings.map(({ key, label, min, max, choices, empty = "automatic", isFlag }) => isFlag ? html`<label class="check" key=${key}><input type="checkbox" checked=${Boolean(speech[key])}
          onChange=${(/** @type {any} */ event) => write("speech", { [key]: event.target.checked || "" })} /> ${label}</label>` : html`<label key=${key}>${label}
        ${choices
          ? html`<select name=${key} value=${speech[key] ?? ""} onChange=${input}><option value="">${empty}</option>
              ${choices.map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}</select>`
          : html`<input name=${key} type="number" step="any" min=${min} max=${max} placeholder=${empty} value=${speech[key] ?? ""} onInput=${input} />`}
      </label>`)}</div></details>`}
    <label class="check"><input type="checkbox" checked=${Boolean(speech.hear)}
      onChange=${(/** @type {any} */ event) => write("speech", { hear: event.target.checked || "" })} /> Play it while it is made</label>
    ${wrong && html`<${Wrong} reason=${wrong} />`}
    <button class="main wide" disabled=${!canSpeak} aria-disabled=${isBusy}>${isBusy ? "Sending…" : "Speak"}</button>
  </form>`;
}
