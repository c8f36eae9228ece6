import type { Clock } from "../../base/clock.ts";

/** Reports one piece of work: what it does now, and again every ten seconds how long it has been at it. */
export interface ProgressLine {
  /** Says what is done now. */
  doing(what: string): void;
  /** Says something on the way. */
  note(what: string): void;
  /** Adds to what is repeated, for example `40 of 104 MB`, without a line of its own. */
  detail(text: string): void;
  /** Says how it ended, with the time that it took. */
  done(what: string): void;
  /** Says nothing more. */
  stop(): void;
}

const repeatMilliseconds = 10_000;

export function progressLine(title: string, write: (line: string) => void, clock: Clock): ProgressLine {
  const begun = clock.monotonicMilliseconds();
  let now = "";
  let detail = "";
  let cancel = (): void => undefined;
  const elapsed = (): string => `${((clock.monotonicMilliseconds() - begun) / 1000).toFixed(1)} s`;
  const repeat = (): void => {
    cancel = clock.schedule(repeatMilliseconds, () => {
      write(`${title}: ${now}${detail === "" ? "" : `, ${detail}`} … ${elapsed()}`);
      repeat();
    });
  };
  const stop = (): void => {
    cancel();
    cancel = () => undefined;
  };
  return {
    doing: (what) => {
      stop();
      now = what;
      detail = "";
      write(`${title}: ${what}`);
      repeat();
    },
    note: (what) => {
      write(`${title}: ${what}`);
    },
    detail: (text) => {
      detail = text;
    },
    done: (what) => {
      stop();
      write(`${title}: ${what} (${elapsed()})`);
    },
    stop,
  };
}
