import { randomUUID } from "node:crypto";
import { Registry } from "prom-client";
import { type SandboxClaim, sandboxClaimKind } from "../../src/api/kinds/sandbox-claim.ts";
import { apiVersion } from "../../src/api/schema/kind.ts";
import { Backends } from "../../src/backends/backends.ts";
import { environmentSeal } from "../../src/backends/environment-seal.ts";
import { silentLog } from "../../src/base/log.ts";
import { createCache } from "../../src/controllers/cluster/cache.ts";
import { createInformers } from "../../src/controllers/cluster/resources.ts";
import { Engines } from "../../src/controllers/images/engines.ts";
import { controllersMetrics } from "../../src/controllers/metrics.ts";
import { NodeCpus } from "../../src/controllers/nodes/node-cpus.ts";
import { nodeInformer } from "../../src/controllers/nodes/nodes.ts";
import { sandboxClaimController } from "../../src/controllers/sandbox-claim/controller.ts";
import { runController } from "../../src/kube/controller.ts";
import { EventRecorder } from "../../src/kube/events.ts";
import { Informer, OwnWrites } from "../../src/kube/informer.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { type ClaimWorld, openClaimWorld } from "../cluster/claim-world.ts";
import { untilStocked } from "../cluster/claimer.ts";
import { type Summary, summary } from "./samples.ts";

/** The result of a storm of claims. */
export interface ClaimStorm {
  /** `function`: calls `claimSandbox`, as a gateway does. `object`: writes a SandboxClaim and watches its completion. */
  way: "function" | "object";
  claims: number;
  concurrency: number;
  /** Ready sandboxes at the start. They are simulated: nothing runs in them. */
  stocked: number;
  milliseconds: Summary;
  claimsPerSecond: number;
  /** Sandboxes that were assigned to two claims. */
  twice: number;
  /** Claims whose sandbox had to be created. */
  cold: number;
  /** Per claim, of the claimer's process, without the request itself. */
  writes: number;
  reconciles: number;
}

/**
 * Storms of claims against a real API server, whose etcd does not sync to disk. **The sandboxes are simulated**: a stand-in
 * writes the status of a ready sandbox. Sets and sandboxes are not reconciled meanwhile, so the cost of refilling is excluded.
 */
export async function measureClaimStorms({ quick }: { quick: boolean }, signal: AbortSignal): Promise<ClaimStorm[]> {
  const world = await openClaimWorld();
  try {
    const results: ClaimStorm[] = [];
    // The first one is a warm-up and is discarded.
    const rounds = quick ? [20, 50] : [50, 1, 100, 250];
    for (const way of ["function", "object"] as const) {
      const claimer = way === "function" ? await functionClaimer(world) : await objectClaimer(world);
      try {
        for (const [number, claims] of rounds.entries()) {
          signal.throwIfAborted();
          const namespace = `${way}-${number}`;
          const request = { claims: claims === 1 ? 50 : claims, concurrency: claims === 1 ? 1 : 100 };
          const storm = await measure(world, claimer, { ...request, way, namespace, stocked: quick ? 60 : 300 });
          if (number > 0) results.push(storm);
        }
      } finally {
        await claimer.close();
      }
    }
    return results;
  } finally {
    await world.close();
  }
}

interface StormClaimer {
  stocked: (namespace: string, count: number) => Promise<void>;
  /** Returns the name of the sandbox, and whether it had to be created. */
  claim: (namespace: string) => Promise<{ name: string; cold: boolean }>;
  /** Writes and reconciles since the last call. */
  counted: () => Promise<{ writes: number; reconciles: number }>;
  close: () => Promise<void>;
}

async function measure(
  world: ClaimWorld,
  claimer: StormClaimer,
  request: { way: ClaimStorm["way"]; namespace: string; claims: number; concurrency: number; stocked: number },
): Promise<ClaimStorm> {
  const { way, namespace, claims, concurrency, stocked } = request;
  await world.stock(namespace, stocked);
  await claimer.stocked(namespace, stocked);
  await claimer.counted();
  const milliseconds: number[] = [];
  const got: { name: string; cold: boolean }[] = [];
  let left = claims;
  const startedAt = performance.now();
  const worker = async (): Promise<void> => {
    while (left-- > 0) {
      const since = performance.now();
      got.push(await claimer.claim(namespace));
      milliseconds.push(performance.now() - since);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, claims) }, worker));
  const seconds = (performance.now() - startedAt) / 1000;
  const { writes, reconciles } = await claimer.counted();
  return {
    way,
    claims,
    concurrency,
    stocked,
    milliseconds: summary(milliseconds)!,
    claimsPerSecond: claims / seconds,
    twice: got.length - new Set(got.map(({ name }) => name)).size,
    cold: got.filter(({ cold }) => cold).length,
    writes: writes / claims,
    reconciles: reconciles / claims,
  };
}

const isWrite = (verb: string): boolean => ["create", "update", "patch", "delete"].includes(verb);

async function functionClaimer(world: ClaimWorld): Promise<StormClaimer> {
  let writes = 0;
  const claimer = await world.claimer({ onRequest: ({ verb }) => (writes += isWrite(verb) ? 1 : 0) });
  return {
    stocked: claimer.stocked,
    claim: async (namespace) => {
      const { sandbox, kind } = await claimer.claim({ namespace, createOnNoStock: true });
      return { name: sandbox.metadata.name, cold: kind === "cold" };
    },
    counted: () => {
      const counted = { writes, reconciles: 0 };
      writes = 0;
      return Promise.resolve(counted);
    },
    close: () => claimer.close(),
  };
}

/** The real SandboxClaim controller, and a client that follows claims as a user would. */
async function objectClaimer(world: ClaimWorld): Promise<StormClaimer> {
  let writes = 0;
  const client = new KubeClient(world.connection, { onRequest: ({ verb }) => (writes += isWrite(verb) ? 1 : 0) });
  const end = new AbortController();
  const informers = createInformers(client, silentLog);
  const following = (Object.values(informers) as Informer<KubeObject>[]).map((informer) => informer.run(end.signal));
  const { clock, random } = client;
  const metrics = controllersMetrics(new Registry());
  const controller = sandboxClaimController({
    client,
    informers,
    clock,
    random,
    metrics,
    seal: environmentSeal(Buffer.alloc(32)),
    cache: createCache(informers),
    podOptions: {},
    engines: new Engines({ cellImage: "ramet.dev/cell:bench" }),
    nodeCpus: new NodeCpus(nodeInformer(client, silentLog)),
    backends: new Backends([]),
    sandboxWrites: new OwnWrites(informers.sandboxes),
    events: new EventRecorder({ client, reportingController: "ramet.dev/bench", reportingInstance: "bench" }),
  });
  const { name, watches, reconcile, requeues } = controller;
  const options = { name, watches, reconcile, clock, random, concurrency: 16, metrics: metrics.forController(name) };
  const running = runController(options, end.signal, (add) => requeues?.connect(add));
  const user = await openUser(world, end.signal);
  const reconciles = async (): Promise<number> => {
    const counter = await metrics.registry.getSingleMetric("ramet_reconciles_total")?.get();
    return counter?.values.reduce((sum, { value }) => sum + value, 0) ?? 0;
  };
  let before = 0;
  return {
    stocked: (namespace, count) => untilStocked(informers.sandboxes, namespace, count),
    claim: user.claim,
    counted: async () => {
      const now = await reconciles();
      const counted = { writes, reconciles: now - before };
      [writes, before] = [0, now];
      return counted;
    },
    close: async () => {
      end.abort();
      controller.close?.();
      await Promise.all([running, user.ended, ...following]);
      await client.close();
    },
  };
}

async function openUser(
  world: ClaimWorld,
  signal: AbortSignal,
): Promise<{ claim: StormClaimer["claim"]; ended: Promise<void> }> {
  const claims = world.client.of(sandboxClaimKind);
  const seen = new Informer({ resource: claims });
  const ended = seen.run(signal);
  await seen.synced(signal);
  return {
    ended,
    claim: async (namespace) => {
      const name = randomUUID();
      const completed = new Promise<SandboxClaim>((resolve) => {
        const stop = seen.store.subscribe(({ object }) => {
          if (object.metadata.name !== name || object.status?.phase !== "Completed") return;
          stop();
          resolve(object);
        });
      });
      await claims.create({
        apiVersion,
        kind: "SandboxClaim",
        metadata: { name, namespace },
        spec: { templateName: "set" },
      });
      const [sandbox = ""] = (await completed).status?.ramet?.sandboxes ?? [];
      // Names of sandboxes that are created for a claim end with ten digits of a digest, the stand-in's with five.
      return { name: sandbox, cold: sandbox === "" || /-[0-9a-f]{10}$/.test(sandbox) };
    },
  };
}
