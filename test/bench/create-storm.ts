import { randomBytes } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { Agent, request } from "undici";
import { guestKeySecret, guestSecretEntry, systemNamespace } from "../../src/api/names/system-names.ts";
import { credentialKeys, publishCredentialKey } from "../../src/backends/environment-seal.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { allRights, createKey } from "../cluster/client-api-world.ts";
import { type ClaimWorld, openClaimWorld } from "../cluster/claim-world.ts";
import { ClientApiProcess } from "../setup/client-api-process.ts";
import { summary, type Summary } from "./samples.ts";

/** Concurrent `POST /sandboxes` from a stocked set. */
export interface CreateStorm {
  creates: number;
  concurrency: number;
  milliseconds: Summary;
  perSecond: number;
  /** Sandboxes that two requests got. */
  twice: number;
}

/**
 * Sends requests to `ramet client-api` in a process of its own, with a real API server whose etcd does not sync to disk. **The
 * sandboxes are simulated**: a stand-in wrote the status of a ready sandbox, and nothing runs in them.
 */
export async function measureCreateStorm({ quick }: { quick: boolean }, signal: AbortSignal): Promise<CreateStorm[]> {
  const world = await openClaimWorld();
  try {
    await createKeys(world);
    const server = await ClientApiProcess.start(world.kubeconfigPath);
    try {
      const storms: CreateStorm[] = [];
      // The first one is a warm-up, and is discarded.
      for (const [number, creates] of (quick ? [20, 50] : [100, 500, 50]).entries()) {
        signal.throwIfAborted();
        const storm = await measure(world, server, { creates, concurrency: creates === 50 ? 1 : 100, number });
        if (number > 0) storms.push(storm);
      }
      return storms;
    } finally {
      await server.close();
    }
  } finally {
    await world.close();
  }
}

/** Creates the keys, which the controllers create otherwise. */
async function createKeys({ client }: ClaimWorld): Promise<void> {
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: systemNamespace } };
  await client
    .resource(coreResources.namespaces)
    .create(namespace)
    .catch(() => undefined);
  await client.resource(coreResources.secrets).create({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: guestKeySecret, namespace: systemNamespace },
    data: { [guestSecretEntry]: randomBytes(32).toString("base64") },
  });
  await publishCredentialKey(client, credentialKeys(randomBytes(32)));
}

async function measure(
  world: ClaimWorld,
  server: ClientApiProcess,
  { creates, concurrency, number }: { creates: number; concurrency: number; number: number },
): Promise<CreateStorm> {
  const namespace = `storm-${number}`;
  await world.stock(namespace, creates + 20);
  const key = await createKey(world.client, { namespace, name: "agent", rules: allRights });
  const dispatcher = new Agent({ connections: concurrency });
  const create = async (body: object): Promise<string> => {
    const answer = await request(`${server.url}/sandboxes`, {
      dispatcher,
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const text = await answer.body.text();
    if (answer.statusCode !== 201) throw new Error(`the client API answered ${answer.statusCode}: ${text}`);
    return (JSON.parse(text) as { sandboxID: string }).sandboxID;
  };
  // The server knows the key, its rights and the set.
  await untilServed(() => create({ templateID: "set", timeout: 3600 }));
  const milliseconds: number[] = [];
  const ids: string[] = [];
  let left = creates;
  const startedAt = performance.now();
  const worker = async (): Promise<void> => {
    while (left-- > 0) {
      const since = performance.now();
      ids.push(await create({ templateID: "set", timeout: 3600 }));
      milliseconds.push(performance.now() - since);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, creates) }, worker));
  const seconds = (performance.now() - startedAt) / 1000;
  await dispatcher.close();
  const twice = ids.length - new Set(ids).size;
  return { creates, concurrency, milliseconds: summary(milliseconds)!, perSecond: creates / seconds, twice };
}

/** Rejects with the last error if the server does not serve the request within 10 seconds. */
async function untilServed(send: () => Promise<unknown>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await send();
      return;
    } catch (error) {
      if (tries === 100) throw error;
      await setTimeout(100);
    }
  }
}
