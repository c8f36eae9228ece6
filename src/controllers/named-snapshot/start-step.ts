import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { actionOf, type CopyStep } from "../../api/recipe/recipe.ts";
import { sandboxRef } from "../../backends/runtime.ts";
import { RametError } from "../../base/errors.ts";
import { withoutSecrets } from "../../base/redact.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { keyOf } from "../../kube/object.ts";
import type { SnapshotDependencies } from "./dependencies.ts";
import { keyedContent, secretContents } from "./keyed-content.ts";
import { attemptId, stepTag } from "./names.ts";
import type { SnapshotAction, Wanted } from "./state.ts";
import { fetchContent } from "./steps/fetch-content.ts";
import { runStep } from "./steps/run-step.ts";
import { type ContentOf, stepContext, type StepOutcome } from "./steps/step.ts";

/** Carries out a step beside the reconciles; at its end the snapshot's key comes again. */
export function startStep(
  snapshot: NamedSnapshot,
  { index, builder, wanted, fresh }: Extract<SnapshotAction, { do: "startStep" }>,
  dependencies: SnapshotDependencies,
): void {
  const { client, runtime, steps, podOptions, clock, closing, enqueue } = dependencies;
  const { recipe } = snapshot.spec;
  const step = recipe[index];
  if (step === undefined) return;
  const target = sandboxRef(builder);
  const wish = {
    step,
    context: stepContext(recipe, index),
    tag: stepTag(index, wanted.digest.steps[index] ?? ""),
    fresh,
    started: startedBefore(snapshot, index, wanted),
  };
  const around = {
    guest: (user: string | undefined) => runtime.guest(target, user),
    takesConnections: (port: number, signal: AbortSignal) => runtime.acceptsConnections(target, port, signal),
    contentOf: contentOf(snapshot, wanted.copied.get(index), dependencies),
    egress: podOptions.egress,
    clock,
    signal: closing,
  };
  steps.start(
    attemptId(builder.metadata.uid, index),
    async () => {
      // Before the step, so that nothing has been done where they cannot be read.
      const secrets = await copiedSecrets(client, { snapshot, index, wanted }, closing);
      return concealing(await runStep(wish, around), secrets);
    },
    () => {
      enqueue(keyOf(snapshot.metadata));
    },
  );
}

/** What it printed goes into a ConfigMap and a status, which more people may read than the Secrets. */
function concealing(outcome: StepOutcome, secrets: readonly string[]): StepOutcome {
  const { log, error } = outcome;
  return {
    ...outcome,
    log: withoutSecrets(log, secrets),
    ...(error !== undefined && { error: withoutSecrets(error, secrets) }),
  };
}

function startedBefore({ spec: { recipe } }: NamedSnapshot, index: number, { digest }: Wanted): Map<string, string> {
  return new Map(
    recipe
      .slice(0, index + 1)
      .flatMap((step, at) =>
        actionOf(step) === "start"
          ? [[stepTag(at, digest.steps[at] ?? ""), `${at + 1} (${step.start ?? ""}) had started`] as const]
          : [],
      ),
  );
}

/** What a copy writes; of a key, only what the digest was computed of. */
function contentOf(
  { metadata: { namespace } }: NamedSnapshot,
  identity: Wanted["copied"] extends ReadonlyMap<number, infer Content> ? Content | undefined : never,
  { client, fetch }: SnapshotDependencies,
): ContentOf {
  return async (copy, signal) => {
    if (copy.content !== undefined) return Buffer.from(copy.content);
    if (copy.url !== undefined) return fetchContent(fetch, { url: copy.url, sha256: copy.sha256 ?? "", signal });
    const found = await keyedContent(client, namespace, keyedSource(copy), signal);
    if (JSON.stringify(found.identity) === JSON.stringify(identity)) return found.bytes;
    throw new RametError("Conflict", `What ${copy.path} is copied from has changed during the build`, {
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
 * The Secrets that a step of the recipe can read: those that steps before it have copied, and those in what it is built from. Of
 * the latter all keys, as a version tells no more than their names.
 * @throws RametError `NotFound` when one that the recipe copies is gone; one in what it is built from may be
 */
async function copiedSecrets(
  client: KubeClient,
  { snapshot, index, wanted }: { snapshot: NamedSnapshot; index: number; wanted: Pick<Wanted, "inheritedSecrets"> },
  signal: AbortSignal,
): Promise<string[]> {
  const { spec, metadata } = snapshot;
  const { namespace } = metadata;
  const refs = spec.recipe.slice(0, index).flatMap(({ copy }) => copy?.secretKeyRef ?? []);
  const own = refs.map(async (secret) => {
    const { bytes } = await keyedContent(client, namespace, { secret }, signal);
    return [bytes];
  });
  const inherited = wanted.inheritedSecrets.map((name) => secretContents(client, { namespace, name }, signal));
  const contents = await Promise.all([...own, ...inherited]);
  return contents.flat().map((bytes) => bytes.toString("utf8"));
}
