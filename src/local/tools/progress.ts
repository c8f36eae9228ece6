import type { Clock } from "../../base/clock.ts";

/** Reports the progress of one task. Repeats the current step and the elapsed time every ten seconds. */
export interface ProgressLine {
  /** Reports the current step. */
  doing(what: string): void;
  /** Reports a fact. */
  note: (what: string) => void;
  /** Sets a detail of the repeated line, for example `40 of 104 MB`. */
  detail(text: string): void;
  /** Reports the result and the elapsed time. */
  done(what: string): void;
  /** Stops the repetition. */
  stop(): void;
}

const repeatMilliseconds = 10_000;

export function progressLine(title: string, write: (line: string) => void, clock: Clock): ProgressLine {
  const startedAt = clock.monotonicMilliseconds();
  let now = "";
  let detail = "";
  let cancel = (): void => undefined;
  const elapsed = (): string => `${((clock.monotonicMilliseconds() - startedAt) / 1000).toFixed(1)} s`;
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
