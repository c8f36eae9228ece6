import { Readable, Writable } from "node:stream";
import { runProgram } from "../../src/cli/program.ts";
import { systemClock } from "../../src/base/clock.ts";

export interface CommandLineOptions {
  kubeconfigPath: string;
  /** Is told what a person would see of the progress, line by line. */
  onProgress: (line: string) => void;
  signal: AbortSignal;
}

/** `ramet`, as a person in a terminal would use it. */
export class CommandLine {
  readonly #options: CommandLineOptions;

  constructor(options: CommandLineOptions) {
    this.#options = options;
  }

  /** What the command printed. @throws Error with what it said, when it does not end with 0 */
  async ramet(args: readonly string[], stdin = ""): Promise<string> {
    const { kubeconfigPath, onProgress, signal } = this.#options;
    const printed: string[] = [];
    const said: string[] = [];
    const exitCode = await runProgram(
      {
        stdin: Readable.from([stdin]),
        stdout: linesTo((text) => printed.push(text)),
        stderr: linesTo((text) => {
          said.push(text);
          onProgress(text.trimEnd());
        }),
        progressIsSeen: true,
        environment: { KUBECONFIG: kubeconfigPath },
        signal,
        takeSignals: () => () => undefined,
        clock: systemClock,
      },
      args,
    );
    if (exitCode !== 0) throw new Error(`ramet ${args.join(" ")} ended with ${exitCode}:\n${said.join("")}`);
    return printed.join("");
  }
}

/** The program writes whole lines. */
function linesTo(take: (text: string) => unknown): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      take(chunk.toString());
      done();
    },
  });
}
