import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { actionOf, type CopyStep } from "../../../api/recipe/recipe.ts";
import { RametError } from "../../../base/errors.ts";
import { withoutSecrets } from "../../../base/redact.ts";
import type { KubeClient } from "../../../kube/kube-client.ts";
import { keyOf } from "../../../kube/object.ts";
import type { SnapshotDependencies } from "../dependencies.ts";
import { keyedContent, secretContents } from "../keyed-content.ts";
import { stepTag } from "../names.ts";
import type { SnapshotAction, Wanted } from "../state.ts";
import type { PublicFetch } from "./public-fetch.ts";
import { runStep } from "./run-step.ts";
import { type ContentOf, stepContext, type StepOutcome } from "./step.ts";

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

interface FetchRequest {
  url: string;
  /** 64 hex digits. */
  sha256: string;
  signal: AbortSignal;
}

/**
 * The bytes at a URL, given away only when they have the digest: through a file, as they may be more than memory holds.
 * @throws RametError `InvalidArgument` for other bytes or too many of them, `NotFound` for an answer that is none,
 *   `Unavailable` when the server cannot be reached
 */
export async function fetchContent(fetch: PublicFetch, { url, sha256, signal }: FetchRequest): Promise<Readable> {
  const body = await fetch(url, signal);
  const directory = await mkdtemp(join(tmpdir(), "ramet-fetch-"));
  const path = join(directory, "content");
  const remove = (): void => {
    rm(directory, { recursive: true, force: true }).catch(() => undefined);
  };
  try {
    const hash = createHash("sha256");
    await pipeline(body, bounded(url, hash), createWriteStream(path), { signal });
    const found = hash.digest("hex");
    if (found !== sha256) throw otherBytes(url, found);
    return createReadStream(path).once("close", remove);
  } catch (error) {
    remove();
    throw error instanceof RametError ? error : broken(url, error);
  }
}

function bounded(url: string, hash: ReturnType<typeof createHash>): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      hash.update(chunk);
      if (bytes > mostBytes) done(tooMuch(url));
      else done(null, chunk);
    },
  });
}

const mostBytes = 1024 ** 3;

function otherBytes(url: string, found: string): RametError {
  return new RametError("InvalidArgument", `${url} is not the file that was named: its sha256 is ${found}`, {
    hint: "If the file was meant to change, write its new sha256 into the step",
  });
}

function tooMuch(url: string): RametError {
  return new RametError("InvalidArgument", `${url} is larger than 1 GiB`, {
    hint: "Fetch it in a run step, from within the sandbox",
  });
}

function broken(url: string, cause: unknown): RametError {
  return new RametError("Unavailable", `fetching ${url} failed: ${RametError.from(cause).message}`, {
    retryable: true,
    cause,
  });
}
