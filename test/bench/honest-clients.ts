import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { Agent, request } from "undici";
import type { GatewayProcess } from "../hostile/gateway-world.ts";
import { cpuSecondsOf } from "./cpu-of-processes.ts";

/** What honest clients ask a server. */
export interface Asked {
  path: string;
  healthPath: string;
  headers: Record<string, string>;
  isAnswer: (status: number, body: string) => boolean;
}

export interface Window {
  perSecond: number;
  perCpuSecond: number;
}

const honestClients = 8;
export const windowMilliseconds = 1_000;

/** Clients with a good token, each with a kept connection and the next request as soon as it has the answer. */
export class HonestClients {
  readonly process: GatewayProcess;
  readonly asked: Asked;
  readonly #dispatcher = new Agent({ connections: honestClients });
  failed = 0;

  constructor(process: GatewayProcess, asked: Asked) {
    this.process = process;
    this.asked = asked;
  }

  async window(): Promise<Window> {
    const { pid } = this.process.child;
    const [since, cpuSince] = [performance.now(), await cpuSecondsOf([pid])];
    let answered = 0;
    const ask = async (): Promise<void> => {
      while (performance.now() - since < windowMilliseconds) {
        if (await this.#request()) answered++;
        else this.failed++;
      }
    };
    await Promise.all(Array.from({ length: honestClients }, ask));
    const seconds = (performance.now() - since) / 1000;
    const used = (await cpuSecondsOf([pid])) - cpuSince;
    return { perSecond: answered / seconds, perCpuSecond: answered / used };
  }

  close(): Promise<void> {
    return this.#dispatcher.close();
  }

  async #request(): Promise<boolean> {
    const { path, headers, isAnswer } = this.asked;
    try {
      const url = `http://127.0.0.1:${this.process.port}${path}`;
      const { statusCode, body } = await request(url, { dispatcher: this.#dispatcher, headers });
      return isAnswer(statusCode, await body.text());
    } catch {
      return false;
    }
  }
}

/** Follows the memory and the health of a server. @returns a function that ends it, and returns the worst */
export function watch({ process, asked }: HonestClients) {
  const worst = { peakMebibytes: 0, slowestHealthMilliseconds: 0 };
  const ended = new AbortController();
  const following = (async (): Promise<void> => {
    while (!ended.signal.aborted) {
      const since = performance.now();
      const dispatcher = new Agent({ pipelining: 0 });
      const url = `http://127.0.0.1:${process.port}${asked.healthPath}`;
      const answer = await request(url, { dispatcher }).catch(() => undefined);
      await answer?.body.dump();
      await dispatcher.close();
      const took = answer === undefined ? Infinity : performance.now() - since;
      worst.slowestHealthMilliseconds = Math.max(worst.slowestHealthMilliseconds, took);
      worst.peakMebibytes = Math.max(worst.peakMebibytes, await mebibytesOf(process));
      await delay(100);
    }
  })();
  return async () => {
    ended.abort();
    await following;
    return worst;
  };
}

export async function mebibytesOf({ child }: GatewayProcess): Promise<number> {
  const status = await readFile(`/proc/${child.pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
}
