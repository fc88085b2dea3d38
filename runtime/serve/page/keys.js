// @ts-check
// Keys of the player. They rest while a field, a button or a list has the focus.

import { audio, pauseOrPlay, seek } from "./player.js";
import state from "./state.js";

const OWN = "input, textarea, select, button, summary, a[href], [role=slider], [contenteditable]";

/** @param {KeyboardEvent} event */
function press(event) {
  const place = /** @type {Element | null} */ (event.target);
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const isWave = place?.getAttribute("role") === "slider";
  if (place?.closest(OWN) && !(isWave && event.key === " ")) return;
  if (event.key === " ") pauseOrPlay();
  else if (!state.playing) return;
  else if (event.key === "ArrowLeft") seek(audio.currentTime - 5);
  else if (event.key === "ArrowRight") seek(audio.currentTime + 5);
  else if (event.key === "ArrowUp") audio.volume = Math.min(1, audio.volume + 0.05);
  else if (event.key === "ArrowDown") audio.volume = Math.max(0, audio.volume - 0.05);
  else if (event.key === "Home") seek(0);
  else if (event.key === "End") seek(audio.duration);
  else return;
  event.preventDefault();
}

addEventListener("keydown", press);
