import { RametError } from "../../src/base/errors.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { snapshotDigest } from "../../src/api/snapshot/snapshot-digest.ts";
import { Informer } from "../../src/kube/informer.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";

/**
 * A stand-in for the controllers: it reports each declared object as finished immediately, and **does nothing**. For figures
 * that measure only the declaring program.
 */
export function finishImmediately(client: KubeClient): { stop: () => Promise<void> } {
  const ended = new AbortController();
  const now = new Date().toISOString();
  const condition = (type: string, status: string, reason: string) => ({
    type,
    status,
    reason,
    message: "simulated",
    lastTransitionTime: now,
  });
  const templates = client.of(sandboxTemplateKind);
  const running = [
    follow(client.of(namedSnapshotKind), ended.signal, async (found) => {
      const { from, recipe, contents } = found.spec;
      const { namespace } = found.metadata;
      const template = (await templates.get({ namespace, name: from.template?.name ?? "" })).spec;
      const { digest } = snapshotDigest({ from: { template }, recipe, copied: new Map(), contents });
      const version = { version: 1, digest, checkpointId: "simulated", checkpointName: "simulated", createdAt: now };
      const conditions = [condition("Building", "False", "Built"), condition("Ready", "True", "Serves")];
      return { version: 1, digest, checkpointId: "simulated", versions: [version], conditions };
    }),
    follow(client.of(sandboxKind), ended.signal, () =>
      Promise.resolve({
        phase: "Running",
        sandboxIp: "127.0.0.1",
        conditions: [condition("Ready", "True", "Ready")],
      }),
    ),
    follow(client.of(sandboxSetKind), ended.signal, ({ spec: { replicas } }) =>
      Promise.resolve({
        replicas,
        availableReplicas: replicas,
        conditions: [condition("Ready", "True", "Ready"), condition("Updated", "True", "Updated")],
      }),
    ),
  ];
  return {
    stop: async () => {
      ended.abort();
      await Promise.all(running);
    },
  };
}

async function follow<T extends KubeObject & { status?: { observedGeneration?: number | undefined } | undefined }>(
  resource: ResourceClient<T>,
  signal: AbortSignal,
  statusOf: (object: T) => Promise<object>,
): Promise<void> {
  const informer = new Informer({ resource });
  informer.onChange((change) => {
    if (change.type === "deleted") return;
    const { metadata, status } = change.object;
    if (status?.observedGeneration === metadata.generation) return;
    void statusOf(change.object)
      .then((given) =>
        resource.mergePatch(
          metadata,
          { status: { ...given, observedGeneration: metadata.generation } },
          { subresource: "status" },
        ),
      )
      .catch((error: unknown) => {
        if (!signal.aborted) console.error(`the stand-in for the controllers: ${RametError.from(error).message}`);
      });
  });
  await informer.run(signal);
}
