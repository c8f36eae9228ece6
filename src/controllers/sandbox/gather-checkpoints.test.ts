import { expect, it } from "vitest";
import { metadata } from "../../../test/setup/volume-samples.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { Pod } from "../../api/schema/pod.ts";
import { ownedCheckpoints } from "./gather-checkpoints.ts";

const at = metadata.creationTimestamp;
const sandbox = (status: object, spec: object = {}) =>
  Sandbox.parse({ apiVersion, kind: "Sandbox", metadata, spec, status });
const checkpoint = (purpose: "automatic" | "pause", owner = metadata.uid) =>
  Checkpoint.parse({
    apiVersion,
    kind: "Checkpoint",
    metadata: {
      ...metadata,
      name: `a-${purpose}`,
      uid: `${purpose}-of-${owner}`,
      labels: { [labels.purpose]: purpose, [labels.sandboxName]: metadata.name },
      ownerReferences: [{ apiVersion, kind: "Sandbox", name: metadata.name, uid: owner, controller: true }],
    },
    spec: { sandboxName: metadata.name },
    status: { phase: "Succeeded", checkpointId: "id", ramet: { cutAt: at } },
  });
const running = { phase: "Running", ramet: { automatic: { outcome: "Taken", at } } };
const held = (reason: string) => [
  { type: "SandboxPaused", status: "True", reason, message: "kept", lastTransitionTime: at },
];
const pod = Pod.parse({ metadata, spec: { containers: [{ name: "sandbox", image: "cell" }] } });
const endedPod = Pod.parse({ ...pod, status: { phase: "Failed" } });

/** Asks with a cache and an API server that have different checkpoints. */
async function asked(own: Sandbox, ownPod: Pod | undefined, cached: Checkpoint[], stored: Checkpoint[]) {
  const lists: unknown[] = [];
  const list = (options: unknown) => {
    lists.push(options);
    return Promise.resolve({ items: stored, resourceVersion: "1" });
  };
  const parts = {
    cache: { checkpointsOwnedBy: () => cached },
    informers: { checkpoints: { resource: { list } } },
  } as unknown as Parameters<typeof ownedCheckpoints>[2];
  return { found: await ownedCheckpoints(own, ownPod, parts), lists };
}

it.each([
  ["its Pod is gone", sandbox(running), undefined, checkpoint("automatic")],
  ["its Pod has ended", sandbox(running), endedPod, checkpoint("automatic")],
  [
    "it is resumed",
    sandbox({ phase: "Paused", conditions: held("CheckpointSucceeded") }),
    undefined,
    checkpoint("pause"),
  ],
  [
    "its resume has begun",
    sandbox({ phase: "Resuming", conditions: held("SnapshotPauseSucceed") }),
    undefined,
    checkpoint("pause"),
  ],
])("asks the API server before a sandbox ends because no checkpoint holds it: %s", async (_, own, ownPod, stored) => {
  const { found, lists } = await asked(own, ownPod, [], [stored, checkpoint("pause", "another-sandbox")]);
  expect(found).toEqual([stored]);
  expect(lists).toEqual([{ namespace: metadata.namespace, labelSelector: `${labels.sandboxName}=${metadata.name}` }]);
});

it.each([
  ["the cache has one", sandbox(running), undefined, [checkpoint("automatic")]],
  ["it runs", sandbox(running), pod, []],
  ["none was ever taken", sandbox({ phase: "Running" }), undefined, []],
  [
    "nobody resumes it",
    sandbox({ phase: "Paused", conditions: held("SnapshotPauseSucceed") }, { paused: true }),
    undefined,
    [],
  ],
  ["its pause has kept nothing", sandbox({ phase: "Resuming", conditions: held("StopPauseSucceed") }), undefined, []],
])("decides from the cache if %s", async (_, own, ownPod, cached) => {
  const { found, lists } = await asked(own, ownPod, cached, [checkpoint("pause")]);
  expect(found).toEqual(cached);
  expect(lists).toEqual([]);
});
