import { pipeline } from "node:stream/promises";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { type Sandbox, sandboxKind } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { type CopyStep, actionOf } from "../../api/recipe/recipe.ts";
import { digestOf } from "../../api/schema/digest.ts";
import type { CopiedContent } from "../../api/snapshot/snapshot-digest.ts";
import { hasEnded, isServing } from "../../api/state/sandbox.ts";
import { treeLimits } from "../../api/tree/tree-check.ts";
import {
  type UploadedTree,
  treeArchive,
  treeCheckpointName,
  treePurpose,
  treeUser,
  uploadedTree,
} from "../../api/tree/tree-upload.ts";
import { sandboxRef } from "../../backends/runtime.ts";
import { canceled, unlessAborted } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { withoutSecrets } from "../../base/visible.ts";
import { within } from "../../base/within.ts";
import { untilFound } from "../../kube/followers.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { keyOf } from "../../kube/object.ts";
import { desiredEgress } from "../origin/egress.ts";
import { keyedContent, secretContents } from "./keyed-content.ts";
import { attemptId, hexOf, stepTag } from "./names.ts";
import type { DesiredVersion, SnapshotAction, SnapshotDependencies } from "./state.ts";
import { hashed } from "./steps/fetch-content.ts";
import { runStep } from "./steps/run-step.ts";
import { type ContentOf, type StepOutcome, type TreeOf, stepContext } from "./steps/step.ts";

/** Runs a step in the background, and reconciles the snapshot when it ends. */
export function startStep(
  snapshot: NamedSnapshot,
  { index, builder, desired, fresh }: Extract<SnapshotAction, { do: "startStep" }>,
  dependencies: SnapshotDependencies,
): void {
  const { client, runtime, steps, clock, closing, enqueue } = dependencies;
  const { recipe } = snapshot.spec;
  const step = recipe[index];
  if (step === undefined) return;
  const target = sandboxRef(builder);
  const attempt = attemptId(builder.metadata.uid, index);
  const request = {
    step,
    context: stepContext(recipe, index),
    tag: stepTag(index, desired.digest.steps[index] ?? ""),
    fresh,
    started: startedBefore(snapshot, index, desired),
  };
  const environment = {
    guest: (user: string | undefined) => runtime.guest(target, user),
    takesConnections: (port: number, signal: AbortSignal) => runtime.acceptsConnections(target, port, signal),
    contentOf: contentOf(snapshot, { identity: desired.copied.get(index), attempt }, dependencies),
    treeOf: treeSource(snapshot, { attempt }, dependencies),
    egress: builderEgress(builder, dependencies),
    clock,
    signal: closing,
  };
  steps.start(
    attempt,
    async () => {
      // Read before the step runs, so that the step does nothing if they cannot be read.
      const secrets = await copiedSecrets(client, { snapshot, index, desired }, closing);
      return concealing(await runStep(request, environment), secrets);
    },
    () => {
      enqueue(keyOf(snapshot.metadata));
    },
  );
}

function builderEgress(builder: Sandbox, { cache, informers, podOptions }: SnapshotDependencies) {
  const template = cache.pod(keyOf(builder.metadata))?.metadata;
  const namespace = informers.namespaces.store.get(builder.metadata.namespace)?.metadata;
  return desiredEgress({ namespace, template, sandbox: builder }, podOptions).policy;
}

/** Removes Secrets from the output: the ConfigMap and the status that hold it have more readers than the Secrets. */
function concealing(outcome: StepOutcome, secrets: readonly string[]): StepOutcome {
  const { log, error } = outcome;
  return {
    ...outcome,
    log: withoutSecrets(log, secrets),
    ...(error !== undefined && { error: withoutSecrets(error, secrets) }),
  };
}

function startedBefore(
  { spec: { recipe } }: NamedSnapshot,
  index: number,
  { digest }: DesiredVersion,
): Map<string, string> {
  return new Map(
    recipe
      .slice(0, index + 1)
      .flatMap((step, at) =>
        actionOf(step) === "start" && step.mayEnd !== true
          ? [[stepTag(at, digest.steps[at] ?? ""), `${at + 1} (${step.start ?? ""})`] as const]
          : [],
      ),
  );
}

/** Returns the content of a copy step. The content of a key must be the one that is in the digest. */
function contentOf(
  { metadata }: NamedSnapshot,
  { identity, attempt }: { identity: CopiedContent | undefined; attempt: string },
  { client, fetches, enqueue }: SnapshotDependencies,
): ContentOf {
  const { namespace } = metadata;
  const onWait = (): void => {
    enqueue(keyOf(metadata));
  };
  return async (copy, signal) => {
    if (copy.content !== undefined) return Buffer.from(copy.content);
    if (copy.url !== undefined) {
      const { url, sha256 = "" } = copy;
      return fetches.fetch({ namespace, url, sha256, attempt, onWait, signal });
    }
    const found = await keyedContent(client, namespace, keyedSource(copy), signal);
    if (JSON.stringify(found.identity) === JSON.stringify(identity)) return found.bytes;
    throw new RametError("Conflict", `Cannot copy to ${copy.path}: its source has changed during the build`, {
      retryable: true,
    });
  };
}

function keyedSource({ configMapKeyRef, secretKeyRef }: CopyStep) {
  if (configMapKeyRef !== undefined) return { configMap: configMapKeyRef };
  if (secretKeyRef !== undefined) return { secret: secretKeyRef };
  throw new RametError("Internal", "A copy step has no source");
}

/**
 * The contents of the Secrets that a step can read: those that earlier steps have copied, and those that the source contains. Of
 * the latter all keys, as a version lists only the names of its Secrets.
 * @throws RametError `NotFound` if a Secret that the recipe copies does not exist. Secrets of the source may be missing.
 */
async function copiedSecrets(
  client: KubeClient,
  {
    snapshot,
    index,
    desired,
  }: { snapshot: NamedSnapshot; index: number; desired: Pick<DesiredVersion, "inheritedSecrets"> },
  signal: AbortSignal,
): Promise<string[]> {
  const { spec, metadata } = snapshot;
  const { namespace } = metadata;
  const refs = spec.recipe.slice(0, index).flatMap(({ copy }) => copy?.secretKeyRef ?? []);
  const own = refs.map(async (secret) => {
    const { bytes } = await keyedContent(client, namespace, { secret }, signal);
    return [bytes];
  });
  const inherited = desired.inheritedSecrets.map((name) => secretContents(client, { namespace, name }, signal));
  const contents = await Promise.all([...own, ...inherited]);
  return contents.flat().map((bytes) => bytes.toString("utf8"));
}

/** Reads uploaded trees: each from a clone of the sandbox that was captured with it, which is deleted afterwards. */
function treeSource(
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
