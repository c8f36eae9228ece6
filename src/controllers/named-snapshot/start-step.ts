import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { actionOf, type CopyStep } from "../../api/recipe/recipe.ts";
import type { CopiedContent } from "../../api/snapshot/snapshot-digest.ts";
import { sandboxRef } from "../../backends/runtime.ts";
import { RametError } from "../../base/errors.ts";
import { withoutSecrets } from "../../base/visible.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { keyOf } from "../../kube/object.ts";
import { desiredEgress } from "../origin/egress.ts";
import { keyedContent, secretContents } from "./keyed-content.ts";
import { attemptId, stepTag } from "./names.ts";
import type { SnapshotAction, SnapshotDependencies, DesiredVersion } from "./state.ts";
import { treeSource } from "./tree-source.ts";
import { runStep } from "./steps/run-step.ts";
import { type ContentOf, stepContext, type StepOutcome } from "./steps/step.ts";

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
