// @ts-check
// Lines of the song that light up in time. A line is a button that seeks.

import { at } from "./api.js";
import { lines } from "./format.js";
import { audio, load, seek, usePlayer } from "./player.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

/** @param {{ job: import("./api.js").Job, output: import("./api.js").Output, language?: string }} props */
export function Lyrics({ job, output, language }) {
  const [found, setFound] = useState(/** @type {{ at: number, text: string }[]} */ ([]));
  const box = useRef(/** @type {any} */ (null));
  const { time } = usePlayer();
  useEffect(() => {
    let isOver = false;
    fetch(at(output.url)).then((answer) => (answer.ok ? answer.text() : ""), () => "")
      .then((text) => void (isOver || setFound(lines(text))));
    return () => { isOver = true; };
  }, [output.url]);
  const now = found.reduce((last, line, index) => (line.at <= time + 0.05 ? index : last), -1);
  useEffect(() => {
    const line = box.current?.children[now];
    if (!line || audio.paused) return;
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const top = line.offsetTop - box.current.clientHeight / 2;
    box.current.scrollTo({ top, behavior: isStill ? "auto" : "smooth" });
  }, [now]);
  if (found.length === 0) return null;
  return html`<ol class="lyrics" ref=${box} lang=${language} aria-label="Lyrics">
    ${found.map((line, index) => html`<li key=${index}>
      <button class=${index === now ? "line now" : "line"} aria-current=${index === now ? "true" : undefined}
        onClick=${() => { load(job, output.track); seek(line.at); }}>${line.text || "…"}</button>
    </li>`)}
  </ol>`;
}
