import { Readable, Writable } from "node:stream";
import { runProgram } from "../../src/cli/program.ts";
import { systemClock } from "../../src/base/clock.ts";

export interface CommandLineOptions {
  kubeconfigPath: string;
  /** Called with each progress line that a terminal would show. */
  onProgress: (line: string) => void;
  signal: AbortSignal;
}

/** Runs `ramet` commands as a person in a terminal does. */
export class CommandLine {
  readonly #options: CommandLineOptions;

  constructor(options: CommandLineOptions) {
    this.#options = options;
  }

  /** Returns the output of the command. @throws Error with its stderr if the exit code is not 0 */
  async ramet(args: readonly string[], stdin = ""): Promise<string> {
    const { kubeconfigPath, onProgress, signal } = this.#options;
    const printed: string[] = [];
    const errorOutput: string[] = [];
    const exitCode = await runProgram(
      {
        stdin: Readable.from([stdin]),
        stdout: linesTo((text) => printed.push(text)),
        stderr: linesTo((text) => {
          errorOutput.push(text);
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
    if (exitCode !== 0) throw new Error(`ramet ${args.join(" ")} ended with ${exitCode}:\n${errorOutput.join("")}`);
    return printed.join("");
  }
}

/** Each write of the program is a whole line. */
function linesTo(take: (text: string) => unknown): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      take(chunk.toString());
      done();
    },
  });
}
