import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { openPki } from "../../src/local/control-plane/pki.ts";
import { ApiProxy, type ProxiedRequest } from "../faults/long/api-proxy.ts";
import type { TestControlPlane } from "../setup/control-plane.ts";

/** Where a request is held back: before the API server has it, or after that, before the answer. */
export type Held = "request" | "answer";

/** The next request or answer that is held back. */
interface Next {
  hold?: { at: Held; engine: string; arrive: () => void; released: Promise<undefined> };
}

/** A proxy between the controllers and the API server that can hold back the next drop of an engine from the record. */
export class HeldDrop {
  readonly server: string;
  readonly close: () => Promise<void>;
  readonly #next: Next;

  private constructor(server: string, proxy: ApiProxy, next: Next) {
    this.server = server;
    this.close = () => proxy.close();
    this.#next = next;
  }

  static async open({ server, ca, dir, adminCert, adminKey }: TestControlPlane): Promise<HeldDrop> {
    const pki = await openPki(join(dir, "pki"), () => systemClock.now());
    const next: Next = {};
    const hold = (at: Held) => (request: ProxiedRequest) => {
      const { hold: held } = next;
      if (held?.at !== at || !isDrop(request, held.engine)) return undefined;
      delete next.hold;
      held.arrive();
      return held.released;
    };
    const proxy = new ApiProxy({
      target: server,
      ca,
      serving: await pki.issue({ commonName: "proxy", use: "server", hosts: ["127.0.0.1"] }),
      client: { certificate: adminCert, key: adminKey },
      onRequest: hold("request"),
      onResponse: hold("answer"),
    });
    return new HeldDrop(await proxy.listen(), proxy, next);
  }

  /** `arrived` resolves when the drop is held back. After `release`, it continues even if its sender is no more. */
  hold(at: Held, engine: string): { arrived: Promise<undefined>; release: () => void } {
    const arrived = Promise.withResolvers<undefined>();
    const released = Promise.withResolvers<undefined>();
    const arrive = (): void => {
      arrived.resolve(undefined);
    };
    const release = (): void => {
      released.resolve(undefined);
    };
    this.#next.hold = { at, engine, arrive, released: released.promise };
    return { arrived: arrived.promise, release };
  }
}

function isDrop({ method, path, body }: ProxiedRequest, engine: string): boolean {
  return method === "PATCH" && path.includes("/configmaps/ramet-engines") && body.includes(`"${engine}":null`);
}
