// @ts-check
// Small pictures. Each is decoration beside a label.

import { html } from "./vendor/htm-preact.js";

const PATHS = {
  play: "M7 4.5v15l12-7.5z",
  pause: "M7 5h3.5v14H7zM13.5 5H17v14h-3.5z",
  heart: "M12 20s-7.5-4.7-7.5-10A4.3 4.3 0 0 1 12 7.3 4.3 4.3 0 0 1 19.5 10c0 5.3-7.5 10-7.5 10z",
  close: "M6 6l12 12M18 6L6 18",
  again: "M19 12a7 7 0 1 1-2-4.9M19 4v4h-4",
  bin: "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12",
  down: "M12 5v10M8 11l4 4 4-4M5 19h14",
  pen: "M5 19l1-4L16 5l3 3L9 18z",
  up: "M12 19V9M8 13l4-4 4 4M5 5h14",
};
const FILLED = ["play", "pause"];

/** @param {{ name: keyof typeof PATHS, full?: boolean }} props */
export function Icon({ name, full }) {
  const look = full || FILLED.includes(name) ? "icon full" : "icon";
  return html`<svg class=${look} viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}
