import { fork } from "node:child_process";
import { join } from "node:path";
import type { Progress } from "./run-target.ts";

/** The outcome of the inputs to one target. */
export interface Outcome {
  name: string;
  inputs: number;
  seconds: number;
  /** A crash, a hang, a leak, or an input for which something does not hold. */
  failure?: string;
  heapBytes?: number;
  descriptors?: number;
  /** After how many inputs the process was last compared with what it held after its first ones. */
  compared?: number;
}

/** A process that reports nothing for so long hangs in one input. */
const silenceMilliseconds = 180_000;

/** Runs one target in a process of its own. */
export async function fuzzProcess(name: string, inputs: number, seed: number): Promise<Outcome> {
  const since = performance.now();
  const child = fork(join(import.meta.dirname, "run-target.ts"), [name, String(inputs), String(seed)], {
    execArgv: ["--expose-gc"],
    silent: true,
  });
  let last: Progress | undefined;
  let output = "";
  let silence: NodeJS.Timeout | undefined;
  let isSilent = false as boolean;
  const heard = (): void => {
    clearTimeout(silence);
    silence = setTimeout(() => {
      isSilent = true;
      child.kill("SIGKILL");
    }, silenceMilliseconds);
  };
  heard();
  child.on("message", (progress) => {
    last = progress as Progress;
    heard();
  });
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (text: Buffer) => (output = (output + text.toString()).slice(-4_000)));
  }
  const ended = await new Promise<string>((resolve) => {
    child.once("close", (code, signal) => {
      resolve(code === 0 ? "" : `the process ended with ${signal ?? String(code)}`);
    });
  });
  clearTimeout(silence);
  const done = last?.inputs ?? 0;
  const part = `the part after ${done} inputs with the seed ${seed}`;
  const crash = isSilent ? `a hang in ${part}` : ended === "" ? undefined : `${ended} in ${part}: ${output}`;
  const failure = last?.failure ?? crash;
  return {
    name,
    inputs: done,
    seconds: (performance.now() - since) / 1000,
    ...(failure !== undefined && { failure }),
    ...(last && { heapBytes: last.heapBytes, descriptors: last.descriptors, compared: last.compared }),
  };
}
