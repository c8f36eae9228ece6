import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { createInterface } from "node:readline";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { JsonLine, LinkAnswer, linkError, LinkEvent } from "./link-wire.ts";

/** The JSON lines between the cell and its link, over the child's stdin and stdout. */
export class LinkLines {
  /** The path of the sandbox's network namespace, when it is made. Rejects with what went wrong. */
  readonly netns: Promise<string>;
  /** Resolves when the network stands. Rejects with what went wrong. */
  readonly ready: Promise<undefined>;
  /** Resolves with the reason when link has ended. */
  readonly closed: Promise<string>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #waiting = new Map<number, PromiseWithResolvers<undefined>>();
  readonly #netns = Promise.withResolvers<string>();
  readonly #ready = Promise.withResolvers<undefined>();
  #ended: RametError | undefined;
  #lastWords = "";
  #stopped = false;
  #nextId = 1;

  constructor(child: ChildProcessWithoutNullStreams, log: ((line: string) => void) | undefined) {
    this.#child = child;
    child.stdin.on("error", () => undefined); // the end of link is told by `closed`
    createInterface(child.stderr).on("line", (line) => {
      this.#lastWords = line;
      log?.(line);
    });
    createInterface(child.stdout).on("line", (line) => {
      this.#receive(line);
    });
    this.netns = this.#netns.promise;
    this.ready = this.#ready.promise;
    // Whoever awaits them hears of a failure; until then it is not one that nobody handles.
    for (const start of [this.netns, this.ready]) start.catch(() => undefined);
    this.closed = this.#end().then((ended) => {
      this.#failStart(ended);
      return ended.message;
    });
  }

  write(value: object): void {
    this.#child.stdin.write(`${JSON.stringify(value)}\n`);
  }

  /** @throws RametError as link answers it; `Unavailable` when link has ended */
  async request(body: object): Promise<void> {
    if (this.#ended !== undefined) throw this.#ended;
    const id = this.#nextId++;
    const answer = Promise.withResolvers<undefined>();
    this.#waiting.set(id, answer);
    this.write({ id, ...body });
    await answer.promise;
  }

  /** Closes link's input, which ends it. */
  end(): void {
    this.#stopped = true;
    this.#child.stdin.end();
  }

  #receive(line: string): void {
    const said = JsonLine.pipe(z.union([LinkEvent, LinkAnswer])).safeParse(line);
    if (!said.success) this.#failStart(RametError.from(said.error, "link said what nobody understands"));
    else if ("event" in said.data) this.#begin(said.data);
    else this.#answer(said.data);
  }

  #begin(event: LinkEvent): void {
    if (event.event === "made") this.#netns.resolve(event.netns);
    else if (event.event === "ready") this.#ready.resolve(undefined);
    else this.#failStart(linkError(event));
  }

  #failStart(error: RametError): void {
    this.#netns.reject(error);
    this.#ready.reject(error);
  }

  #answer({ id, error }: LinkAnswer): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(undefined);
    else waiting?.reject(linkError(error));
  }

  async #end(): Promise<RametError> {
    const ended = await new Promise<RametError>((resolve) => {
      this.#child.once("error", (cause) => {
        const hint = "Build native/link, or name it in RAMET_LINK";
        resolve(new RametError("ToolMissing", `ramet-link could not be started: ${cause.message}`, { cause, hint }));
      });
      this.#child.once("close", (code, signal) => {
        resolve(new RametError("Unavailable", this.#reason(code, signal)));
      });
    });
    this.#ended = ended;
    for (const waiting of this.#waiting.values()) waiting.reject(ended);
    this.#waiting.clear();
    return ended;
  }

  #reason(code: number | null, signal: NodeJS.Signals | null): string {
    if (this.#stopped) return "link was stopped";
    const how = signal === null ? `with exit code ${String(code)}` : `by ${signal}`;
    return `link ended ${how}${this.#lastWords === "" ? "" : `: ${this.#lastWords}`}`;
  }
}
