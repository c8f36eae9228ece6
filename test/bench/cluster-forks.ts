import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { isConditionTrue } from "../../src/kube/conditions.ts";
import { Informer } from "../../src/kube/informer.ts";
import type { ForkSide } from "./fork.ts";
import { namespace, type LocalCluster } from "./local-cluster.ts";
import { podMemory } from "./pod-memory.ts";
import { firstAnswer } from "./workload.ts";

/**
 * Ramet's side of a fork: a user creates Sandboxes of one checkpoint concurrently and follows them with one watch.
 */
export async function openClusterForks(cluster: LocalCluster, signal: AbortSignal): Promise<ForkSide> {
  const { sandboxes, checkpoints } = cluster.cluster;
  const source = await cluster.createSandbox({ name: "fork-source" });
  await firstAnswer(addressOf(source));
  const checkpoint = await cluster.createCheckpoint("fork-source", "fork-source");
  await cluster.remove(sandboxes, source);
  const { checkpointId = "" } = checkpoint.status ?? {};
  const seen = new Informer({ resource: sandboxes, namespaces: [namespace] });
  const end = new AbortController();
  const following = seen.run(end.signal);
  await seen.synced(signal);
  const clone = async (name: string): Promise<string> => {
    const [ready] = await Promise.all([untilReady(seen, name, signal), cluster.requestSandbox({ name, checkpointId })]);
    if (ready.status?.ramet?.restoredFrom !== checkpointId) throw new Error(`${name} is not a clone`);
    return firstAnswer(addressOf(ready));
  };
  return {
    round: (number, count) => {
      const names = Array.from({ length: count }, (_, index) => `fork-${number}-${index}`);
      return Promise.resolve({
        starts: names.map((name) => () => clone(name)),
        memory: async () => {
          const all = [];
          for (const name of names) all.push(Object.values(await podMemory(cluster, name)));
          return all;
        },
        remove: async () => {
          await Promise.all(
            names.map(async (name) => cluster.remove(sandboxes, await sandboxes.get({ namespace, name }))),
          );
        },
      });
    },
    close: async () => {
      end.abort();
      await following;
      await cluster.remove(checkpoints, checkpoint);
    },
  };
}

/** @throws Error with the message of a failed sandbox, or on a timeout */
function untilReady(seen: Informer<Sandbox>, name: string, signal: AbortSignal): Promise<Sandbox> {
  const given = AbortSignal.any([signal, AbortSignal.timeout(timeoutMilliseconds)]);
  return new Promise((resolve, reject) => {
    const stop = seen.store.subscribe(({ object }) => {
      if (object.metadata.name !== name) return;
      const { phase, message, conditions } = object.status ?? {};
      if (phase === "Failed") reject(new Error(`${name}: ${message ?? "failed"}`));
      else if (isConditionTrue(conditions, "Ready")) resolve(object);
      else return;
      stop();
    });
    given.addEventListener("abort", () => {
      stop();
      reject(new Error(`${name} was not ready`, { cause: given.reason }));
    });
  });
}

const timeoutMilliseconds = 300_000;

function addressOf({ metadata, status }: Sandbox): string {
  if (status?.sandboxIp === undefined) throw new Error(`${metadata.name} has no address`);
  return status.sandboxIp;
}
