// A Python failure: the frames of the project open, those of libraries folded.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Failure, Place } from "../state/dev";
import { CopyButton } from "./parts";

export function PlaceLink({ place }: { place: Place | null | undefined }): JSX.Element | null {
  if (!place) return null;
  return (
    <a class="place mono" href={`vscode://file${place.file}:${place.line}`} title={`${place.file}:${place.line} — open in an editor`}>
      {place.shown}
    </a>
  );
}

export function Traceback({ failure }: { failure: Failure }): JSX.Element {
  const [all, setAll] = useState(false);
  const frames = failure.frames ?? [];
  const shown = all ? frames : frames.filter((frame) => frame.own);
  const list = shown.length > 0 ? shown : frames;
  return (
    <div class="traceback">
      <p class="traceback-head">
        <strong>{failure.type}</strong>: {failure.text}
      </p>
      {list.length > 0 ? (
        <ol class="frames">
          {list.map((frame, at) => (
            <li key={at} class={frame.own ? "own" : ""}>
              <a class="mono" href={`vscode://file${frame.file}:${frame.line}`} title={frame.file}>
                {frame.file.split("/").slice(-2).join("/")}:{frame.line}
              </a>{" "}
              <span class="dim">in {frame.function}</span>
              {frame.source && <pre class="code">{frame.source}</pre>}
            </li>
          ))}
        </ol>
      ) : (
        failure.traceback && <pre class="code">{failure.traceback}</pre>
      )}
      <p class="traceback-foot">
        {frames.length > frames.filter((frame) => frame.own).length && (
          <button type="button" class="link" onClick={() => setAll(!all)}>
            {all ? "Only frames of the project" : `All ${frames.length} frames`}
          </button>
        )}
        {failure.traceback && <CopyButton text={failure.traceback} what="the traceback" label="Copy traceback" />}
        {failure.id && <span class="dim small mono">{failure.id}</span>}
      </p>
    </div>
  );
}
