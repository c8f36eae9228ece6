import type { Io } from "./io.ts";

/** What a command does: it answers the exit code. Loaded when it is called, so that `--help` loads nothing. */
export type Perform = (io: Io) => Promise<number>;

/** Turns a command line into a call: what commander calls with arguments and options. */
export type Act = <Arguments extends unknown[]>(
  prepare: (...given: Arguments) => Promise<Perform>,
) => (...given: Arguments) => Promise<void>;
