import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { controlPlaneAddress } from "./node.ts";

interface Seen {
  /** What only the program's memory has. */
  token: string;
  count: number;
  /** The address of its Pod. */
  from: string;
  at: number;
  /** The addresses of its earlier Pods. */
  earlier: Set<string>;
  /** The last number that came after a higher one. */
  behind: number | undefined;
}

/**
 * A server outside of all sandboxes to which the program of each one reports a number that grows. It sees the address of the Pod,
 * and so a second copy of a sandbox, a copy that has lost what was counted, and how long none ran.
 */
export class Witness {
  /** Sentences: each is a sandbox that ran twice or that has lost something. */
  readonly violations: string[] = [];
  /** The milliseconds between the last report from a Pod and the first one from the next Pod. */
  readonly downtimes: number[] = [];
  readonly #seen = new Map<string, Seen>();
  readonly #server: Server;

  constructor() {
    this.#server = createServer(({ url = "", socket }, response) => {
      const [, name = "", token = "", count = ""] = url.split("/");
      this.#report(name, { token, count: Number(count), from: socket.remoteAddress ?? "" });
      response.end();
    });
  }

  async open(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, controlPlaneAddress, resolve));
  }

  /** As in an egress rule. */
  get address(): string {
    return `${controlPlaneAddress}:${(this.#server.address() as AddressInfo).port}`;
  }

  count(name: string): number {
    return this.#seen.get(name)?.count ?? 0;
  }

  /** Forgets a sandbox that is deleted. */
  forget(name: string): void {
    this.#seen.delete(name);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /**
   * A program repeats a report without a response, and a connection of a captured sandbox can deliver its request seconds after the
   * repetition of it. So one lower number says nothing. A program that has lost something continues from there.
   */
  #report(name: string, { token, count, from }: Pick<Seen, "token" | "count" | "from">): void {
    const at = performance.now();
    const last = this.#seen.get(name);
    if (last === undefined) {
      this.#seen.set(name, { token, count, from, at, earlier: new Set(), behind: undefined });
      return;
    }
    const what = `${name}: ${last.token}/${last.count} from ${last.from}, then ${token}/${count} from ${from}`;
    if (token !== last.token) this.violations.push(`lost: ${what}`);
    else if (count < last.count || (count === last.count && last.earlier.has(from))) {
      if (count - 1 === last.behind) this.violations.push(`went back: ${what}`);
      last.behind = count;
      return;
    }
    if (last.earlier.has(from)) this.violations.push(`two copies: ${what}`);
    if (token === last.token && count > last.count + 1) this.violations.push(`skipped: ${what}`);
    if (from !== last.from) {
      last.earlier.add(last.from);
      this.downtimes.push(at - last.at);
    }
    Object.assign(last, { token, count, from, at });
  }
}

/** The Python program that reports to the witness, and writes the number to a file. */
export function countingProgram(address: string): string {
  return `import os, secrets, time, urllib.request
token, count = secrets.token_hex(8), 0
while True:
    count += 1
    open("/root/next", "w").write(str(count))
    os.rename("/root/next", "/root/count")
    while True:
        try:
            urllib.request.urlopen(f"http://${address}/{os.uname().nodename}/{token}/{count}", timeout=2).read()
            break
        except Exception: time.sleep(0.05)
    time.sleep(0.1)`;
}
