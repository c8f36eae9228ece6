import { pipeline } from "node:stream/promises";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { type Sandbox, sandboxKind } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { digestOf } from "../../api/schema/digest.ts";
import { hasEnded, isServing } from "../../api/state/sandbox.ts";
import {
  type UploadedTree,
  treeArchive,
  treeCheckpointName,
  treeLimits,
  treePurpose,
  treeUser,
  uploadedTree,
} from "../../api/tree/tree-check.ts";
import { sandboxRef } from "../../backends/runtime.ts";
import { canceled, unlessAborted } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { within } from "../../base/within.ts";
import { untilFound } from "../../kube/followers.ts";
import { hexOf } from "./names.ts";
import type { SnapshotDependencies } from "./state.ts";
import { hashed } from "./steps/fetch-content.ts";
import type { TreeOf } from "./steps/step.ts";

/** Reads uploaded trees: each from a clone of the sandbox that was captured with it, which is deleted afterwards. */
export function treeSource(
  { metadata: { namespace, name } }: NamedSnapshot,
  { attempt }: { attempt: string },
  dependencies: SnapshotDependencies,
): TreeOf {
  const { cache, runtime, informers, clock } = dependencies;
  const read = async (sandbox: Sandbox, tree: UploadedTree, use: Parameters<TreeOf>[1], signal: AbortSignal) => {
    const content = await runtime.guest(sandboxRef(sandbox), treeUser).readFile(treeArchive, signal);
    const { stream, digest } = hashed(treeLimits.bytes, larger);
    try {
      await Promise.all([pipeline(content, stream), use(stream)]);
    } finally {
      content.destroy();
    }
    if (digest() === tree.sha256) return;
    throw new RametError("InvalidArgument", "The uploaded tree is damaged: its archive has another digest", {
      hint: "Delete its Checkpoint, and upload the tree again",
    });
  };
  return async (digest, use, signal) => {
    const tree = uploadedTree(cache.checkpoint(`${namespace}/${treeCheckpointName(digest)}`), digest);
    if (tree === undefined) throw notUploaded(namespace, digest);
    // A repeat of the step finds the clone of the first attempt.
    const at = { namespace, name: `${name}-tree-${hexOf(digestOf([attempt, digest]), 8)}` };
    try {
      const clone = await untilReady(await create(at, tree, dependencies), dependencies, signal);
      const deadline = { clock, milliseconds: copyMilliseconds, what: "Copying the tree", signal };
      await within(deadline, (either) => read(clone, tree, use, either));
    } finally {
      await informers.sandboxes.resource.delete(at).catch(() => undefined);
    }
  };
}

/** The clone is deleted at its end even if nobody is left to do that. */
async function create(
  at: { namespace: string; name: string },
  { checkpointId }: UploadedTree,
  { informers, cloning, clock }: SnapshotDependencies,
): Promise<Sandbox> {
  const { resource } = informers.sandboxes;
  const { annotations, spec } = cloning.builder(at.namespace, { steps: 0, checkpointId });
  const shutdownTime = new Date(clock.now().getTime() + longestMilliseconds).toISOString();
  const metadata = { ...at, labels: { [labels.purpose]: treePurpose }, annotations };
  const { apiVersion } = sandboxKind;
  return resource.ensure({ apiVersion, kind: "Sandbox", metadata, spec: { ...spec, shutdownTime } });
}

async function untilReady(
  created: Sandbox,
  { informers, clock }: SnapshotDependencies,
  signal: AbortSignal,
): Promise<Sandbox> {
  const { uid, name } = created.metadata;
  const { store } = informers.sandboxes;
  const settled = () => {
    const sandbox = store.byUid(uid);
    return sandbox && (isServing(sandbox) || hasEnded(sandbox)) ? sandbox : undefined;
  };
  const found = untilFound([store], settled, { clock, milliseconds: startMilliseconds });
  const sandbox = await unlessAborted(found, signal, () => canceled("Waiting for the uploaded tree", signal));
  if (sandbox !== undefined && isServing(sandbox)) return sandbox;
  const { message = "it is starting" } = store.byUid(uid)?.status ?? {};
  throw new RametError("Unavailable", `The sandbox ${name} with the uploaded tree did not start: ${message}`, {
    retryable: true,
  });
}

function larger(): RametError {
  return new RametError("InvalidArgument", "The tree is larger than when it was uploaded");
}

function notUploaded(namespace: string, digest: string): RametError {
  return new RametError("NotFound", `The namespace ${namespace} has no uploaded tree with the digest ${digest}`, {
    hint: "Upload the directory with `ramet snapshot upload`, or build the template again, and request another build",
  });
}

/** 1 GiB at 2 MiB a second. */
const copyMilliseconds = 600_000;
const startMilliseconds = 180_000;
const longestMilliseconds = 1_800_000;
