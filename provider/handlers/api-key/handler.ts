import { randomBytes } from "node:crypto";
import * as z from "zod";
import { acceptsDigest, rotatedDigests } from "../../../src/api/keys/api-key-rules.ts";
import { apiKeyDigest, newApiKey, readApiKey, apiKeyFormats } from "../../../src/api/keys/api-key-text.ts";
import { type ApiKey, apiKeyKind, type ApiKeyManifest, ApiKeySpec } from "../../../src/api/kinds/api-key.ts";
import { defined } from "../../../src/base/defined.ts";
import { RametError } from "../../../src/base/errors.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { diffByTable, type DiffTable, type HandlerContext, notFound, type ResourceHandler } from "../handler.ts";
import { withCluster } from "../open-cluster.ts";
import { applyOwned, nameProblems, ownerOf } from "../owner.ts";
import { parseTimeSpan } from "../time-span.ts";
import { checkInputs } from "../validate.ts";
import { ownerAnnotation } from "../../../src/api/names/labels.ts";

/** Manages API keys as resources of a program. The key is only in the state, as a secret. */
export function apiKeyHandler(context: HandlerContext): ResourceHandler {
  return {
    check: async (olds, news) => {
      const { inputs, failures } = checkInputs(ApiKeyInputs, news, ["grace"]);
      if (failures.length > 0) return { inputs, failures };
      const find: Parameters<typeof nameProblems>[2] = (client, at, signal) =>
        client.of(apiKeyKind).find(at, { signal });
      return { inputs, failures: await nameProblems(context, { olds, inputs }, find) };
    },
    // The new key is added to the same object, so that the old one still works while programs get the new one.
    diff: (_id, olds, news) => Promise.resolve({ ...diffByTable(apiKeyDiff, olds, news), deleteBeforeReplace: false }),
    create: (values) => create(context, ApiKeyInputs.parse(values)),
    update: (_id, olds, news) => update(context, ApiKeyState.parse(olds), ApiKeyInputs.parse(news)),
    read: (id, props) => read(context, id, ApiKeyState.parse(props)),
    delete: (_id, props) => remove(context, ApiKeyState.parse(props)),
  };
}

/**
 * Makes a key. If the object exists, this is the replacement of another key of the program, or an earlier attempt whose key was
 * lost: the digests in the object expire after the grace period.
 */
async function create(context: HandlerContext, inputs: ApiKeyInputs) {
  const { namespace, name, owner, format } = inputs;
  const { text: key, digest } = newApiKey({ namespace, name, format, random: randomBytes });
  const graceMilliseconds = parseTimeSpan(inputs.grace, "grace");
  await withCluster(context, (client) =>
    applyOver(client, inputs, (found) => {
      const rotation = { digest, now: client.clock.now(), graceMilliseconds };
      const digests = rotatedDigests(found?.spec.digests ?? [], rotation);
      return { manifest: manifestOf(inputs, { digest, digests, found }), declared: { owner } };
    }),
  );
  return { id: `${namespace}/${name}`, outs: { ...inputs, key } };
}

/** Leaves the digests as they are, so that a key that was revoked stays so. */
async function update(context: HandlerContext, olds: ApiKeyState, inputs: ApiKeyInputs) {
  await withCluster(context, (client) =>
    applyOver(client, inputs, (found) => {
      if (found === undefined) throw revoked(inputs);
      const declared = { owner: inputs.owner, former: { owner: olds.owner } };
      const { digests } = found.spec;
      return { manifest: manifestOf(inputs, { digest: digestOf(olds), digests, found }), declared };
    }),
  );
  return { outs: { ...inputs, key: olds.key } };
}

interface Change {
  manifest: ApiKeyManifest;
  declared: Omit<Parameters<typeof applyOwned>[2], "found">;
}

/** Applies what `change` makes of the object, again if somebody changed it in the meantime. */
async function applyOver(
  client: KubeClient,
  at: { namespace: string; name: string },
  change: (found: ApiKey | undefined) => Change,
  attempts = 3,
): Promise<void> {
  const keys = client.of(apiKeyKind);
  const { namespace, name } = at;
  const found = await keys.find({ namespace, name });
  const { manifest, declared } = change(found);
  try {
    await applyOwned(keys, manifest, { ...declared, found });
  } catch (error) {
    const now = await keys.find({ namespace, name });
    const isChanged = now?.metadata.resourceVersion !== found?.metadata.resourceVersion;
    if (!isChanged || attempts === 1) throw error;
    await applyOver(client, at, change, attempts - 1);
  }
}

function revoked({ namespace, name }: ApiKeyInputs): RametError {
  return new RametError("NotFound", `The key ${namespace}/${name} was revoked`, {
    hint: "To make a new key, run: pulumi up --refresh",
  });
}

/** A key whose value is no longer accepted counts as deleted, so that the next update makes a new one. */
async function read(context: HandlerContext, id: string, props: ApiKeyState): ReturnType<ResourceHandler["read"]> {
  const { namespace, name } = props;
  return withCluster(context, async (client) => {
    const found = await client.of(apiKeyKind).find({ namespace, name });
    if (found === undefined || !acceptsDigest(found.spec, digestOf(props), client.clock.now())) return notFound;
    const { limits: _, ...others } = props;
    const { serviceAccountName, limits } = found.spec;
    return { id, props: { ...others, serviceAccountName, ...defined({ limits }) } };
  });
}

/** Does nothing after a replacement, because the object then has the digest of the new key, and that of the old one expires. */
async function remove(context: HandlerContext, props: ApiKeyState): Promise<void> {
  const { namespace, name, owner } = props;
  await withCluster(context, async (client) => {
    const keys = client.of(apiKeyKind);
    const found = await keys.find({ namespace, name });
    if (found === undefined || ownerOf(found, owner) !== owner) return;
    const { annotations = {}, uid } = found.metadata;
    if (annotations[declaredDigestAnnotation] !== digestOf(props)) return;
    await keys.delete(found.metadata, { uid });
  });
}

function digestOf({ namespace, name, key }: ApiKeyState): string {
  return apiKeyDigest({ namespace, name }, readApiKey(key)?.digits ?? "");
}

const ApiKeyInputs = z.looseObject({
  name: z.string().min(1).max(253),
  namespace: z.string().min(1),
  serviceAccountName: ApiKeySpec.shape.serviceAccountName,
  limits: ApiKeySpec.shape.limits,
  format: z.enum(apiKeyFormats),
  /** Another text makes another key. */
  rotate: z.string().optional(),
  /** How long the previous key works after it was replaced. */
  grace: z.string(),
  owner: z.string(),
});
type ApiKeyInputs = z.infer<typeof ApiKeyInputs>;

const ApiKeyState = ApiKeyInputs.extend({ key: z.string() });
type ApiKeyState = z.infer<typeof ApiKeyState>;

const apiKeyDiff: DiffTable = {
  immutable: ["name", "namespace", "format", "rotate"],
  mutable: ["serviceAccountName", "limits"],
};

/**
 * The digest of the key that the program declares. When a replaced resource is deleted, it shows that the object belongs to the
 * new one.
 */
const declaredDigestAnnotation = "ramet.dev/pulumi-key-digest";

interface Declared {
  digest: string;
  digests: ApiKeySpec["digests"];
  /** The object from which the digests were derived, if there was one. */
  found: ApiKey | undefined;
}

/** The manifest to apply. It is refused if the object has changed, so that a digest that somebody removed does not come back. */
function manifestOf(inputs: ApiKeyInputs, { digest, digests, found }: Declared): ApiKeyManifest {
  const { name, namespace, serviceAccountName, limits, owner } = inputs;
  const annotations = { [ownerAnnotation]: owner, [declaredDigestAnnotation]: digest };
  const guard = found && { resourceVersion: found.metadata.resourceVersion };
  return {
    apiVersion: apiKeyKind.apiVersion,
    kind: "ApiKey",
    metadata: { name, namespace, annotations, ...guard },
    spec: defined({ serviceAccountName, digests, limits }),
  };
}
