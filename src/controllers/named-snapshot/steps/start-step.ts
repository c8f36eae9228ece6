import { RametError } from "../../../base/errors.ts";
import type { CopyStep } from "../../../api/recipe/copy-step.ts";
import { actionOf } from "../../../api/recipe/recipe.ts";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { keyOf } from "../../../kube/object.ts";
import { withoutSecrets } from "../../../base/redact.ts";
import { copiedSecrets } from "./copied-secrets.ts";
import type { ContentOf } from "./step-request.ts";
import type { SnapshotDependencies } from "../dependencies.ts";
import { fetchContent } from "./fetch-content.ts";
import { keyedContent } from "../keyed-content.ts";
import { stepTag } from "../names.ts";
import { runStep } from "./run-step.ts";
import type { SnapshotAction, Wanted } from "../state.ts";
import { stepContext } from "./step-context.ts";
import type { StepOutcome } from "./step-outcome.ts";

/** Names the call that carries out a step in a builder. */
export function attemptId(builderUid: string, index: number): string {
  return `${builderUid}/${index}`;
}

/** Carries out a step beside the reconciles; at its end the snapshot's key comes again. */
export function startStep(
  snapshot: NamedSnapshot,
  { index, builder, wanted, fresh }: Extract<SnapshotAction, { do: "startStep" }>,
  dependencies: SnapshotDependencies,
): void {
  const { client, backend, steps, podOptions, clock, closing, enqueue } = dependencies;
  const { recipe } = snapshot.spec;
  const step = recipe[index];
  if (step === undefined) return;
  const ip = builder.status?.sandboxIp ?? builder.status?.podInfo?.podIP ?? "";
  const target = { sandboxUid: builder.metadata.uid, ip };
  const wish = {
    step,
    context: stepContext(recipe, index),
    tag: stepTag(index, wanted.digest.steps[index] ?? ""),
    fresh,
    started: startedBefore(snapshot, index, wanted),
  };
  const around = {
    guest: (user: string | undefined) => backend.guest(target, user),
    takesConnections: (port: number, signal: AbortSignal) => backend.takesConnections(target, port, signal),
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
