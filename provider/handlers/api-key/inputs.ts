import * as z from "zod";
import { apiKeyFormats } from "../../../src/api/keys/api-key-text.ts";
import { type ApiKey, apiKeyKind, type ApiKeyManifest, ApiKeySpec } from "../../../src/api/kinds/api-key.ts";
import { diffByTable, type DiffResult, type DiffTable, type Values } from "../handler.ts";
import { ownerAnnotation } from "../../../src/api/names/labels.ts";

/** The inputs of an API key. */
export const ApiKeyInputs = z.looseObject({
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
export type ApiKeyInputs = z.infer<typeof ApiKeyInputs>;

/** The state of an API key in a stack. */
export const ApiKeyState = ApiKeyInputs.extend({ key: z.string() });
export type ApiKeyState = z.infer<typeof ApiKeyState>;

const apiKeyDiff: DiffTable = {
  name: "immutable",
  namespace: "immutable",
  format: "immutable",
  rotate: "immutable",
  serviceAccountName: "mutable",
  limits: "mutable",
  grace: "ignored",
  owner: "ignored",
};

/** The new key is added to the same object, so that the old one still works while programs get the new one. */
export function diffApiKey(olds: Values, news: Values): DiffResult {
  return { ...diffByTable(apiKeyDiff, olds, news), deleteBeforeReplace: false };
}

/**
 * The digest of the key that the program declares. When a replaced resource is deleted, it shows that the object belongs to the
 * new one.
 */
export const declaredDigestAnnotation = "ramet.dev/pulumi-key-digest";

interface Declared {
  /** The digest of the program's key. */
  digest: string;
  /** All digests of the object. */
  digests: ApiKeySpec["digests"];
  /** The object from which the digests were derived, if there was one. */
  found: ApiKey | undefined;
}

/** The manifest to apply. It is refused if the object has changed, so that a digest that somebody removed does not come back. */
export function manifestOf(inputs: ApiKeyInputs, { digest, digests, found }: Declared): ApiKeyManifest {
  const { name, namespace, serviceAccountName, limits, owner } = inputs;
  const annotations = { [ownerAnnotation]: owner, [declaredDigestAnnotation]: digest };
  const guard = found && { resourceVersion: found.metadata.resourceVersion };
  return {
    apiVersion: apiKeyKind.apiVersion,
    kind: "ApiKey",
    metadata: { name, namespace, annotations, ...guard },
    spec: { serviceAccountName, digests, ...(limits !== undefined && { limits }) },
  };
}
