// @ts-check
// The state that parts of the page share. Everything that must last is on the server; the words that
// are being written are kept by the browser.

import { useEffect, useState } from "./vendor/htm-preact.js";

/**
 * @typedef {import("./api.js").Job} Job
 * @typedef {import("./api.js").Properties} Properties
 * @typedef {{ id: string, name: string, use: string }} Source
 * @typedef {{ text: string, undo?: () => void }} Toast
 * @typedef {{ id: string, track: number }} Version
 */

const state = {
  /** @type {Properties | null} */ server: null,
  /** @type {Job[]} */ jobs: [],
  isLoaded: false,
  isReached: true,
  needsKey: false,
  /** The most cards. */ shown: 50,
  /** @type {Record<string, number>} Seconds left of a stage, by job. */ left: {},
  tab: "song",
  /** @type {Version | null} The card that is open. */ open: null,
  /** @type {Version | null} The song in the player. */ playing: null,
  /** @type {{ id: string, seconds: number } | null} The job that is heard while it is made. */ hearing: null,
  /** @type {Version[]} */ compared: [],
  /** @type {Record<string, any>} */ song: kept("song", {}),
  /** @type {Record<string, any>} */ speech: kept("speech", {}),
  /** @type {Source | null} */ source: null,
  /** @type {{ name: string, loaded: number, total: number } | null} The file on its way. */ sending: null,
  /** @type {Toast | null} */ toast: null,
  said: "",
  filter: "",
  onlyLiked: false,
};

/** @type {Set<() => void>} */
const listeners = new Set();

export default state;

/** @param {Partial<typeof state>} patch */
export function set(patch) {
  Object.assign(state, patch);
  for (const listener of listeners) listener();
}

/** Draws the component again at every change. */
export function useShared() {
  const [, tick] = useState(0);
  useEffect(() => {
    const listener = () => tick((/** @type {number} */ n) => n + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return state;
}

/** @param {string} name @param {any} other */
function kept(name, other) {
  try {
    return JSON.parse(localStorage.getItem(`acestep.${name}`) ?? "") ?? other;
  } catch {
    return other;
  }
}

/** @param {"song" | "speech"} form @param {Record<string, any>} patch */
export function write(form, patch) {
  const value = { ...state[form], ...patch };
  for (const key of Object.keys(value)) {
    if (value[key] === "" || value[key] === undefined || value[key] === null) delete value[key];
  }
  set({ [form]: value });
  try {
    localStorage.setItem(`acestep.${form}`, JSON.stringify(value));
  } catch {
    // A full or forbidden store: the words live as long as the page.
  }
}

/** Says something to screen readers, in the one live region. @param {string} text */
export function say(text) {
  // The same words twice are said twice.
  set({ said: state.said === text ? `${text}\u00a0` : text });
}

let timer = 0;

/** @param {string} text @param {() => void} [undo] */
export function toast(text, undo) {
  clearTimeout(timer);
  set({ toast: { text, undo } });
  say(undo ? `${text} Undo is at the end of the page.` : text);
  timer = setTimeout(() => set({ toast: null }), undo ? 15000 : 6000);
}
