import * as z from "zod";
import type { NamedSnapshot } from "../../../src/api/kinds/named-snapshot.ts";
import { RametError } from "../../../src/base/errors.ts";
import { withoutSecrets } from "../../../src/base/redact.ts";
import { covers } from "../../../src/kube/apply.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { ObjectMeta } from "../../../src/kube/object.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import { InitFailed } from "../follow.ts";
import {
  changedProperties,
  diffByTable,
  type DiffResult,
  type HandlerContext,
  type ResourceHandler,
  type Values,
} from "../handler.ts";
import { withCluster } from "../open-cluster.ts";
import { applyOptionsFor, explainApplyError } from "../owner.ts";
import { parseTimeSpan } from "../time-span.ts";
import { checkNamedSnapshot, digestOfInputs } from "./check.ts";
import { deleteSnapshot, waitUntilDeleted } from "./delete-snapshot.ts";
import { manifestOf, namedSnapshotDiff, NamedSnapshotInputs, retryPatch, specProperties } from "./inputs.ts";
import { lookUp, recoverDigestKey, snapshotClient, waitForFollowers } from "./lookup.ts";
import { describeChange } from "./preview.ts";
import { recipeSecret, recipeSecretName } from "./recipe-secret.ts";
import { waitForBuild } from "./wait-for-build.ts";

/** Named snapshots as resources of a program. */
export function namedSnapshotHandler(context: HandlerContext): ResourceHandler {
  return {
    check: async (olds, news) => checkNamedSnapshot(olds, news, await recoverDigestKey(context, olds, news)),
    diff: (_id, olds, news) => diff(context, olds, news),
    create: async (values) => {
      const inputs = NamedSnapshotInputs.parse(values);
      const id = `${inputs.namespace}/${inputs.name}`;
      return { id, outs: await apply(context, inputs, id) };
    },
    update: async (id, olds, news) => {
      const { owner } = olds as { owner: string };
      return { outs: await apply(context, NamedSnapshotInputs.parse(news), id, owner) };
    },
    read: (id, props) => read(context, id, props),
    delete: (_id, props) =>
      withCluster(context, (client) => deleteSnapshot(client, NamedSnapshotInputs.parse(props), context.say)),
  };
}

async function diff(context: HandlerContext, olds: Values, news: Values): Promise<DiffResult> {
  // Where only the cluster can compute the digest, the other inputs say whether anything has changed.
  const requested = news["digest"] === undefined ? { ...news, digest: olds["digest"] } : news;
  const result = diffByTable(namedSnapshotDiff, olds, requested);
  if (result.changes && result.replaces.length === 0) context.say(await describe(context, olds, requested));
  return result;
}

async function describe(context: HandlerContext, olds: Values, news: Values): Promise<string> {
  const { name, namespace } = news as { name: string; namespace: string };
  const known = (olds["versions"] ?? []) as { version: number; digest: string }[];
  // A preview goes without the cluster too: then it says what the state knows.
  const seen = await withCluster(context, (client) =>
    lookUp(client, { name, namespace }, AbortSignal.timeout(lookUpMilliseconds)),
  ).catch((error: unknown) => ({ kept: known, followers: [], unseen: RametError.from(error).message }));
  const recipe = (values: Values): NamedSnapshotInputs["recipe"] => (values["recipe"] ?? []) as never;
  const text = describeChange({
    before: { recipe: recipe(olds), digest: digestOfInputs(olds), served: olds["digest"] as string | undefined },
    after: { recipe: recipe(news), digest: digestOfInputs(news) },
    ...seen,
  });
  const others = changedProperties(namedSnapshotDiff, olds, news).filter((one) => one !== "recipe" && one !== "digest");
  return `${name}: ${[...others.map((one) => `${one} changes`), text].filter((one) => one !== "").join("; ")}`;
}

/**
 * Makes the object what is wished, and follows the build. A repeat finds what the first try did.
 * @param formerOwner what the resource was called when its state was written
 */
async function apply(
  context: HandlerContext,
  inputs: NamedSnapshotInputs,
  id: string,
  formerOwner?: string,
): Promise<Values> {
  return withCluster(context, async (client) => {
    const snapshots = snapshotClient(client);
    const at = { namespace: inputs.namespace, name: inputs.name };
    const found = await snapshots.find(at);
    const claim = applyOptionsFor(found, inputs.owner, formerOwner);
    const before = found && (await unlessDeleting(snapshots, found, context));
    if (inputs.secrets !== undefined) await applySecret(client, inputs, formerOwner);
    const applied = await snapshots.apply(manifestOf(inputs), claim).catch((error: unknown) => {
      throw explainApplyError(error, "NamedSnapshot", at);
    });
    const request = hasFailed(before, inputs) ? client.clock.now() : undefined;
    const from = request === undefined ? applied : await snapshots.mergePatch(at, retryPatch(request));
    try {
      const built = await waitForBuild({
        snapshots,
        from,
        digest: inputs.digest,
        timeoutMilliseconds: parseTimeSpan(inputs.timeout, "timeout"),
        ...(request && { request: request.toISOString() }),
        say: (line) => {
          context.say(`${inputs.name}: ${withoutSecrets(line, secretsOf(inputs))}`);
        },
      });
      await waitForFollowers(client, built);
      return outputs(inputs, built);
    } catch (error) {
      const last = await snapshots.find(at).catch(() => undefined);
      throw new InitFailed(id, outputs(inputs, last), shown(RametError.from(error), inputs));
    }
  });
}

/** Whether what is wished for has been tried. Where only the cluster knows all inputs, whatever was tried last may be it. */
function hasFailed(before: NamedSnapshot | undefined, { digest }: NamedSnapshotInputs): boolean {
  const { build } = before?.status ?? {};
  return build?.failure !== undefined && (digest === undefined || build.digest === digest);
}

/** The name of one that is being removed is free only when it is gone. */
async function unlessDeleting(
  snapshots: ReturnType<typeof snapshotClient>,
  found: NamedSnapshot,
  { say }: HandlerContext,
): Promise<NamedSnapshot | undefined> {
  if (found.metadata.deletionTimestamp === undefined) return found;
  await waitUntilDeleted(snapshots, found, say);
  return undefined;
}

/** The causes may hold what the message must not. */
function shown({ code, message, hint }: RametError, inputs: NamedSnapshotInputs): RametError {
  return new RametError(code, withoutSecrets(message, secretsOf(inputs)), { ...(hint !== undefined && { hint }) });
}

function secretsOf({ secrets = {} }: NamedSnapshotInputs): string[] {
  return Object.values(secrets);
}

async function applySecret(client: KubeClient, inputs: NamedSnapshotInputs, formerOwner?: string): Promise<void> {
  const secrets = client.resource(coreResources.secrets);
  const at = { namespace: inputs.namespace, name: recipeSecretName(inputs.name) };
  const claim = applyOptionsFor(await secrets.find(at), inputs.owner, formerOwner);
  await secrets.apply(recipeSecret(inputs), claim).catch((error: unknown) => {
    throw explainApplyError(error, "Secret", at);
  });
}

/** The digest is that of what serves: after a failed build it differs from the wished one, and the next run goes on. */
function outputs(inputs: Values, found: NamedSnapshot | undefined): Values {
  const { digest: _wished, ...rest } = inputs;
  const { version, digest, checkpointId, versions = [] } = found?.status ?? {};
  return {
    ...rest,
    ...(version !== undefined && { version }),
    ...(digest !== undefined && { digest }),
    ...(checkpointId !== undefined && { checkpointId }),
    versions: versions.map((one) => ({ version: one.version, digest: one.digest })),
  };
}

async function read(context: HandlerContext, id: string, props: Values): ReturnType<ResourceHandler["read"]> {
  const [namespace, name = ""] = id.split("/");
  const { found, secrets } = await withCluster(context, async (client) => ({
    found: await snapshotClient(client).find({ namespace, name }),
    secrets: await readSecrets(client, NamedSnapshotInputs.parse(props)),
  }));
  if (found === undefined || found.metadata.deletionTimestamp !== undefined) return { id: "", props: {} };
  // What somebody has changed in the cluster shows; what the API server has filled in does not.
  const spec: Values = { ...found.spec };
  const drifted = specProperties.filter((property) => !covers(spec[property], props[property]));
  const seen = Object.fromEntries(drifted.map((property) => [property, spec[property]]));
  return { id, props: outputs({ ...props, ...seen, ...(secrets !== undefined && { secrets }) }, found) };
}

const lookUpMilliseconds = 5_000;

/**
 * What of the program's secrets is in the cluster, as it is there, so that what was edited or removed shows as changed. Undefined
 * where the program has none, or whoever looks may not read them.
 */
async function readSecrets(
  client: KubeClient,
  { name, namespace, secrets }: { name: string; namespace: string; secrets?: Record<string, string> | undefined },
): Promise<Record<string, string> | undefined> {
  if (secrets === undefined) return undefined;
  const resource = client.resource(coreResources.secrets, (value) => Secret.parse(value));
  try {
    const data = (await resource.find({ namespace, name: recipeSecretName(name) }))?.data ?? {};
    const keys = Object.keys(secrets).filter((key) => Object.hasOwn(data, key));
    return Object.fromEntries(keys.map((key) => [key, Buffer.from(data[key] ?? "", "base64").toString()]));
  } catch (error) {
    if (RametError.from(error).code !== "Forbidden") throw error;
    return undefined;
  }
}

const Secret = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).optional() });
