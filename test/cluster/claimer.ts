import { randomUUID } from "node:crypto";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { type Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { setRevision, setSandbox } from "../../src/api/set/set-revision.ts";
import { FairTurns } from "../../src/base/fair-turns.ts";
import { Informer } from "../../src/kube/informer.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { type ClaimParts, claimSandbox } from "../../src/operations/claim/claim-sandbox.ts";
import type { ClaimRequest } from "../../src/operations/claim/request.ts";
import { Stock } from "../../src/operations/claim/stock.ts";

/** A claimer with its own connection, cache and stock, as in one process. */
export interface Claimer {
  parts: ClaimParts;
  sandboxes: Informer<Sandbox>;
  /** @param signal stops the wait */
  claim: (
    request: Partial<ClaimRequest> & Pick<ClaimRequest, "namespace">,
    signal?: AbortSignal,
  ) => ReturnType<typeof claimSandbox>;
  /** Resolves when its cache shows at least `count` running sandboxes of the namespace. */
  stocked: (namespace: string, count: number) => Promise<void>;
  close: () => Promise<void>;
}

/** Opens a claimer with the same parts as a gateway. Closing the claimer closes the client. */
export async function openClaimer(client: KubeClient): Promise<Claimer> {
  const informer = new Informer({
    resource: client.of(sandboxKind),
  });
  const sets = client.of(sandboxSetKind);
  const end = new AbortController();
  const informing = informer.run(end.signal);
  await informer.synced(end.signal);
  let isOpen = true;
  const stock = new Stock({ store: informer.store, revisionOf: () => undefined });
  const { clock } = client;
  const turns = new FairTurns(16);
  const model: ClaimParts["model"] = async (at) => {
    const set = await sets.find(at);
    return set && setSandbox(set, setRevision(set, undefined, String), Math.random);
  };
  const parts: ClaimParts = { sandboxes: informer.resource, stock, turns, model, clock };
  return {
    parts,
    sandboxes: informer,
    claim: (request, signal = end.signal) =>
      claimSandbox(
        {
          set: "set",
          owner: "me",
          lock: randomUUID(),
          createOnNoStock: false,
          timeoutMilliseconds: 20_000,
          ...request,
        },
        parts,
        AbortSignal.any([signal, end.signal]),
      ),
    stocked: (namespace, count) => untilStocked(informer, namespace, count),
    close: async () => {
      if (!isOpen) return;
      isOpen = false;
      end.abort();
      await informing;
      await client.close();
    },
  };
}

/** Resolves when at least `count` sandboxes of the namespace are running. */
export function untilStocked({ store }: Informer<Sandbox>, namespace: string, count: number): Promise<void> {
  return new Promise((resolve) => {
    const check = (): void => {
      const all = store.list().filter(({ metadata }) => metadata.namespace === namespace);
      if (all.filter(({ status }) => status?.phase === "Running").length < count) return;
      stop();
      resolve();
    };
    const stop = store.subscribe(check);
    check();
  });
}
