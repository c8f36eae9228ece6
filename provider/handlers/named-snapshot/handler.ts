import { SandboxTemplateSpec } from "../../../src/api/kinds/sandbox-template.ts";
import { printSnapshotReference } from "../../../src/api/snapshot/snapshot-reference.ts";
import {
  type NamedSnapshot,
  namedSnapshotKind,
  NamedSnapshotSpec,
  SnapshotSource,
  volumesLeftOut,
} from "../../../src/api/kinds/named-snapshot.ts";
import { defined } from "../../../src/base/defined.ts";
import { RametError } from "../../../src/base/errors.ts";
import { withoutSecrets } from "../../../src/base/visible.ts";
import { covers } from "../../../src/kube/apply.ts";
import { snapshotState } from "../../../src/api/state/named-snapshot.ts";
import { awaitBuild, describeBuild } from "../../../src/operations/await-build.ts";
import { followed, InitFailed, settledObject, follow } from "../follow.ts";
import { type HandlerContext, notFound, type ResourceHandler, type Values } from "../handler.ts";
import { withCluster } from "../open-cluster.ts";
import { applyOptionsFor, applyOwned, type FormerObject, isOwn, nameProblems, ownerOf } from "../owner.ts";
import { missingVolumes, volumesOfCheckpoint, volumesOfTemplate } from "../missing-volumes.ts";
import { parseTimeSpan } from "../time-span.ts";
import { hasUnknown } from "../validate.ts";
import { checkNamedSnapshot } from "./check.ts";
import {
  holdingProperties,
  manifestOf,
  metadataProperties,
  NamedSnapshotInputs,
  retryPatch,
  specProperties,
} from "./inputs.ts";
import { waitForFollowers } from "./lookup.ts";
import { diffNamedSnapshot, servedInputs } from "./preview.ts";
import { applyRecipeSecret, deleteRecipeSecret, readRecipeSecrets, recoverDigestKey } from "./recipe-secret.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";

export function namedSnapshotHandler(context: HandlerContext): ResourceHandler {
  return {
    check: async (olds, news) => {
      const { inputs, failures } = checkNamedSnapshot(olds, news, await recoverDigestKey(context, olds, news));
      if (failures.length > 0) return { inputs, failures };
      const find: Parameters<typeof nameProblems>[2] = (client, at, signal) =>
        client.of(namedSnapshotKind).find(at, { signal });
      const [taken, volumes] = await Promise.all([
        nameProblems(context, { olds, inputs }, find),
        hasAllVolumes(inputs) ? [] : volumesOfSource(context, inputs),
      ]);
      return { inputs, failures: [...taken, ...missingVolumes(leftOut(volumes, inputs), inputs)] };
    },
    diff: (_id, olds, news) => diffNamedSnapshot(context, olds, news),
    create: async (values) => {
      const inputs = NamedSnapshotInputs.parse(values);
      const id = `${inputs.namespace}/${inputs.name}`;
      return { id, outs: await apply(context, inputs, id) };
    },
    update: async (id, olds, news) => {
      return { outs: await apply(context, NamedSnapshotInputs.parse(news), id, olds) };
    },
    read: (id, props) => read(context, id, props),
    delete: (_id, props) =>
      withCluster(context, (client) => deleteSnapshot(client, NamedSnapshotInputs.parse(props), context)),
  };
}

function hasAllVolumes({ contents, volumes }: Values): boolean {
  return Array.isArray(contents) && contents.includes("volumes") && !Array.isArray(volumes);
}

/** The volumes that the versions do not contain. Names that a preview does not know yet may be those of any volume. */
function leftOut(ofSource: string[], { volumes }: Values): string[] {
  if (!Array.isArray(volumes)) return ofSource;
  return hasUnknown(volumes) ? [] : volumesLeftOut({ contents: ["volumes"], volumes }, ofSource);
}

/** The volumes of the source whose data no version contains. A running sandbox is checked when it is captured. */
async function volumesOfSource(context: HandlerContext, { namespace, source, from }: Values): Promise<string[]> {
  const known = NamedSnapshotInputs.shape.source.safeParse(source).data;
  if (known !== undefined && "template" in known) {
    return hasUnknown(known) ? [] : volumesOfTemplate(SandboxTemplateSpec.parse(known.template));
  }
  const { data } = SnapshotSource.safeParse(from);
  const { name, version, digest } = data?.snapshot ?? {};
  const snapshot = name && printSnapshotReference({ name, ...(version && { version }), ...(digest && { digest }) });
  return volumesOfCheckpoint(context, { namespace, from: data?.checkpoint?.id ?? snapshot });
}

/**
 * Applies the object and waits for its build. A repeated call continues what an earlier one started.
 * @param olds the state
 */
async function apply(
  context: HandlerContext,
  inputs: NamedSnapshotInputs,
  id: string,
  olds: Values = {},
): Promise<Values> {
  // The resource's name when its state was written.
  const { owner: formerOwner, uid } = olds as FormerObject;
  return withCluster(context, async (client) => {
    const snapshots = client.of(namedSnapshotKind);
    const at = { namespace: inputs.namespace, name: inputs.name };
    const found = await snapshots.find(at);
    const declared = { owner: inputs.owner, former: { owner: formerOwner, uid } };
    // Refuses the object of others before its Secret is written.
    applyOptionsFor(found, declared.owner, declared.former);
    const before = found && (await unlessDeleting(snapshots, found, context));
    const secretOwner = olds["secrets"] == null ? undefined : formerOwner;
    if (inputs.secrets !== undefined) await applyRecipeSecret(client, inputs, secretOwner);
    const applied = await applyOwned(snapshots, manifestOf(inputs), { ...declared, found: before });
    const retryRequest = hasFailed(before, inputs) ? client.clock.now() : undefined;
    const from = retryRequest === undefined ? applied : await snapshots.mergePatch(at, retryPatch(retryRequest));
    try {
      const log = (line: string): void => {
        context.log(`${inputs.name}: ${withoutSecrets(line, secretsOf(inputs))}`);
      };
      const settled = await awaitBuild(followed(snapshots, log, describeBuild), from, {
        digest: inputs.digest,
        request: retryRequest?.toISOString(),
        timeoutMilliseconds: parseTimeSpan(inputs.timeout, "timeout"),
        signal: context.signal,
      });
      const hint = `Correct the recipe, or run pulumi up again to retry; show the whole log with: ramet snapshot logs ${inputs.name}`;
      const built = settledObject(settled, { log, hint });
      checkInputs(built, inputs);
      await waitForFollowers(client, built, context.signal);
      // Until then, a failed build is repeated with it.
      if (inputs.secrets === undefined && formerOwner !== undefined) await deleteRecipeSecret(client, inputs);
      return outputs(inputs, built);
    } catch (error) {
      const last = await snapshots.find(at).catch(() => undefined);
      const served = servedInputs(olds);
      const outs = { ...outputs(inputs, last), ...defined({ served }) };
      throw new InitFailed(id, outs, redacted(RametError.from(error), inputs));
    }
  });
}

/** @throws RametError `Conflict` if the current version is of other inputs. One that is pinned or suspended may be. */
function checkInputs(built: NamedSnapshot, { digest }: NamedSnapshotInputs): void {
  const { name } = built.metadata;
  const found = built.status?.digest;
  if (snapshotState(built).is === "held" || digest === undefined || found === digest) return;
  const what = `Version ${built.status?.version ?? "?"} of the snapshot ${name} was built from other inputs than the program's`;
  throw new RametError("Conflict", `${what}: an object that it is built from was changed in the cluster`, {
    hint: "Run pulumi refresh, then pulumi up; if that does not help, check that the controllers run",
  });
}

/** Whether a build of these inputs has failed. If only the cluster knows the digest, any failed build may be of these inputs. */
function hasFailed(before: NamedSnapshot | undefined, { digest }: NamedSnapshotInputs): boolean {
  const { build } = before?.status ?? {};
  return build?.failure !== undefined && (digest === undefined || build.digest === digest);
}

/** Waits until an object that is being deleted no longer exists and its name is free. Returns any other object. */
async function unlessDeleting(
  snapshots: ResourceClient<NamedSnapshot>,
  found: NamedSnapshot,
  context: HandlerContext,
): Promise<NamedSnapshot | undefined> {
  if (found.metadata.deletionTimestamp === undefined) return found;
  await waitUntilDeleted(snapshots, found, context);
  return undefined;
}

/** Drops the cause as well, because it may contain a secret. */
function redacted({ code, message, hint }: RametError, inputs: NamedSnapshotInputs): RametError {
  return new RametError(code, withoutSecrets(message, secretsOf(inputs)), defined({ hint }));
}

function secretsOf({ secrets = {} }: NamedSnapshotInputs): string[] {
  return Object.values(secrets);
}

/** The digest is that of the current version. After a failed build it differs from the inputs' digest, so the next run retries. */
function outputs(inputs: Values, found: NamedSnapshot | undefined): Values {
  const { digest: _inputDigest, ...rest } = inputs;
  const { version, digest, checkpointId, versions = [] } = found?.status ?? {};
  const { sizeBytes, createdAt, engine } = versions.find((one) => one.version === version) ?? {};
  const reference = found && version && printSnapshotReference({ name: found.metadata.name, version });
  // Those of an earlier version are no longer true.
  const { sizeBytes: _, createdAt: __, engine: ___, ...others } = rest;
  return {
    ...others,
    ...defined({ uid: found?.metadata.uid, version, digest, checkpointId, reference, sizeBytes, createdAt, engine }),
    versions: versions.map((one) => ({ version: one.version, digest: one.digest })),
  };
}

async function read(context: HandlerContext, id: string, props: Values): ReturnType<ResourceHandler["read"]> {
  const [namespace, name = ""] = id.split("/");
  const state = NamedSnapshotInputs.parse(props);
  const { found, secrets } = await withCluster(context, async (client) => ({
    found: await client.of(namedSnapshotKind).find({ namespace, name }),
    secrets: await readRecipeSecrets(client, state),
  }));
  if (found === undefined || found.metadata.deletionTimestamp !== undefined || !isOwn(found, state)) return notFound;
  // Report changes made in the cluster, but not defaults that the API server added.
  const spec: Values = { ...found.spec };
  const isOthers = (property: string) =>
    holdingProperties.some((one) => one === property) && (props[property] ?? undefined) === undefined;
  const drifted = specProperties.filter(
    (property) => !isOthers(property) && !covers(spec[property], props[property] ?? defaultsSince[property]),
  );
  const observed = Object.fromEntries(drifted.map((property) => [property, spec[property]]));
  const known = { ...props, ...observed, ...observedMetadata(found, props), ...defined({ secrets }) };
  return { id, props: outputs(known, found) };
}

/** Those labels and annotations that the program declares. */
function observedMetadata({ metadata }: NamedSnapshot, props: Values): Values {
  const declared = metadataProperties.filter((property) => props[property] != null);
  const seen = declared.map((property): [string, Values] => {
    const keys = Object.keys(props[property] as object);
    return [property, defined(Object.fromEntries(keys.map((key) => [key, metadata[property]?.[key]])))];
  });
  return Object.fromEntries(seen);
}

/** The API server's defaults that are not kept in the state, because states of earlier versions do not have them. */
const defaultsSince: Values = { engineUpgrade: NamedSnapshotSpec.shape.engineUpgrade.parse(undefined) };

/** Deletes the object, then the Secret of its recipe. Keeps objects that another resource declares by now. */
async function deleteSnapshot(
  client: KubeClient,
  inputs: NamedSnapshotInputs,
  context: Pick<HandlerContext, "log" | "signal">,
): Promise<void> {
  const { name, namespace } = inputs;
  const snapshots = client.of(namedSnapshotKind);
  const found = await snapshots.find({ namespace, name });
  if (found !== undefined && !isOwn(found, inputs)) {
    const other = ownerOf(found, "");
    const why = other === "" ? "another object" : `declared by ${other}`;
    context.log(`${name}: not deleted, because it is now ${why}`);
  } else if (found !== undefined) {
    await snapshots.delete({ namespace, name }, { uid: found.metadata.uid });
    await waitUntilDeleted(snapshots, found, context);
  }
  await deleteRecipeSecret(client, inputs);
}

/**
 * Waits until a named snapshot is deleted. The wait is short if the controller reports references to it.
 * @throws RametError `Conflict` naming the references
 */
async function waitUntilDeleted(
  snapshots: ResourceClient<NamedSnapshot>,
  found: NamedSnapshot,
  { log, signal }: Pick<HandlerContext, "log" | "signal">,
): Promise<void> {
  const { name } = found.metadata;
  let lastMessage: string | undefined;
  const isDeleted = (seen: NamedSnapshot | undefined): boolean => {
    const message = seen?.status?.conditions?.find(({ reason }) => reason === "Deleting")?.message;
    if (message !== undefined && message !== lastMessage) log(`${name}: ${message}`);
    lastMessage = message;
    return seen === undefined;
  };
  const what = `the deletion of the snapshot ${name}`;
  const wait = { resource: snapshots, what, signal };
  const until = (seen: NamedSnapshot | undefined): boolean => isDeleted(seen) || lastMessage !== undefined;
  const from = await follow({ ...wait, from: found, until, timeoutMilliseconds: deletionMilliseconds });
  if (from === undefined) return;
  try {
    await follow({ ...wait, from, until: isDeleted, timeoutMilliseconds: referencedMilliseconds });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new RametError("Conflict", lastMessage ?? `The snapshot ${name} is not deleted yet`, {
      hint: "It is deleted when nothing refers to it; run the command again then",
      cause: error,
    });
  }
}

const deletionMilliseconds = 120_000;
/** Enough for references that the same program deletes. */
const referencedMilliseconds = 20_000;
