import { createHmac } from "node:crypto";
import { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import type { RegistryLogin } from "../../api/credentials/credential-seal.ts";
import type { SnapshotSource } from "../../api/kinds/named-snapshot.ts";
import type { OwnerReference } from "../../api/schema/metadata.ts";
import { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import { digestOf, shortDigestOf } from "../../api/schema/digest.ts";
import { parseSnapshotReference } from "../../api/snapshot/snapshot-reference.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { ServiceParts } from "./parts.ts";
import { currentSource } from "./source.ts";
import { parseImageReference, dockerHub, registryPathOf } from "../../api/names/image-reference.ts";
import { registrySecretPrefix } from "../../api/names/system-names.ts";

export interface Sizes {
  cpuCount?: number | undefined;
  memoryMB?: number | undefined;
}

/** The origin of a build: a template, a named snapshot or a checkpoint, by the name that a client uses. @throws RametError `NotFound`, `NotSupported` */
export async function sourceNamed(
  parts: ServiceParts,
  namespace: string,
  text: string,
  signal: AbortSignal,
): Promise<SnapshotSource> {
  const source = await currentSource(parts, namespace, text, signal);
  if (source.kind === "template") return { template: { name: source.name } };
  if (source.kind === "set") {
    const { templateRef } = source.set.spec;
    if (templateRef !== undefined) return { template: { name: templateRef.name } };
    throw new RametError("NotSupported", `The SandboxSet ${text} has no SandboxTemplate to build from`);
  }
  const { reference, checkpoint } = source;
  const [name = ""] = reference.split("@");
  if (parts.known.snapshot(`${namespace}/${name}`) === undefined)
    return { checkpoint: { id: checkpoint?.status?.checkpointId ?? reference } };
  const { version, digest } = reference.includes("@") ? parseSnapshotReference(reference) : {};
  return { snapshot: defined({ name, version, digest }) };
}

export interface ImageSource extends Sizes {
  image: string;
  /** The Secret for the image's registry, and the named snapshot with which it is deleted. */
  pullSecret?: { name: string; owner: OwnerReference } | undefined;
}

/** A template of an image, which is created if it does not exist. */
export function sourceOfImage(
  parts: ServiceParts,
  namespace: string,
  { image, pullSecret, ...sizes }: ImageSource,
  signal: AbortSignal,
): Promise<SnapshotSource> {
  const resources = resourcesOf(sizes);
  const container = { name: "sandbox", image, command: ["sleep", "infinity"], ...defined({ resources }) };
  const secrets = pullSecret && { imagePullSecrets: [{ name: pullSecret.name }] };
  const spec: SandboxTemplateSpec = { template: { spec: { containers: [container], ...secrets } } };
  return ensureTemplate(parts, { namespace, stem: "image", spec, owner: pullSecret?.owner, signal });
}

/**
 * A template with other sizes, which is created if it does not exist. A snapshot has the sizes of its memory.
 * @throws RametError `NotSupported` for a source that is no template
 */
export async function resized(
  parts: ServiceParts,
  at: { namespace: string; signal: AbortSignal },
  source: SnapshotSource,
  sizes: Sizes,
): Promise<SnapshotSource> {
  const found = source.template && parts.known.template(`${at.namespace}/${source.template.name}`);
  const parsed = PodTemplateSpec.safeParse(found?.spec.template);
  const [main, ...others] = parsed.data?.spec.containers ?? [];
  if (found === undefined || parsed.data === undefined || main === undefined) {
    throw new RametError("NotSupported", "cpuCount and memoryMB are not supported for a build from a snapshot", {
      hint: "Leave them out: the template has the resources of the snapshot that it is built from",
    });
  }
  const { requests, limits } = resourcesOf(sizes) ?? {};
  const resources = {
    ...main.resources,
    requests: { ...main.resources?.requests, ...requests },
    limits: { ...main.resources?.limits, ...limits },
  };
  const { data: template } = parsed;
  const containers = [{ ...main, resources }, ...others];
  const spec = { ...found.spec, template: { ...template, spec: { ...template.spec, containers } } };
  return ensureTemplate(parts, { ...at, stem: "sized", spec });
}

interface DerivedTemplate {
  namespace: string;
  /** The beginning of its name. */
  stem: string;
  spec: SandboxTemplateSpec;
  owner?: OwnerReference | undefined;
  signal: AbortSignal;
}

/**
 * The name is that of its content, so it is the same for everyone and never changes.
 * @throws RametError `Conflict` if a user has created or changed one of this name
 */
async function ensureTemplate(
  parts: ServiceParts,
  { namespace, stem, spec, owner, signal }: DerivedTemplate,
): Promise<SnapshotSource> {
  const name = `${stem}-${shortDigestOf(spec)}`;
  const metadata = { namespace, name, ...(owner && { ownerReferences: [owner] }) };
  const found =
    parts.known.template(`${namespace}/${name}`) ??
    (await parts.informers.templates.resource.ensure(
      { apiVersion, kind: "SandboxTemplate", metadata, spec },
      { signal },
    ));
  if (digestOf(found.spec) === digestOf(SandboxTemplateSpec.parse(spec))) return { template: { name } };
  throw new RametError("Conflict", `The SandboxTemplate ${name} has another content than its name says`, {
    hint: "Delete it, and start the build again",
  });
}

function resourcesOf({ cpuCount, memoryMB }: Sizes) {
  if (cpuCount === undefined && memoryMB === undefined) return undefined;
  const limits = defined({ cpu: cpuCount?.toString(), memory: memoryMB && `${memoryMB}Mi` });
  return { requests: limits, limits };
}

/**
 * The login with which a client builds from an image of a private registry, for a Secret for image pulls. The same login has the same
 * Secret, so that another build of the same template reuses its steps.
 * @param key makes names that reveal nothing about the content of a Secret
 * @throws RametError `InvalidArgument` for an invalid image name
 */
export function registryLogin(
  key: Buffer,
  owner: OwnerReference,
  { image, username, password }: { image: string; username: string; password: string },
): RegistryLogin {
  const reference = parseImageReference(image);
  if (reference === undefined)
    throw new RametError("InvalidArgument", `${JSON.stringify(image.slice(0, 200))} is not an image name`);
  const { host } = registryPathOf(reference.repository);
  const server = host === dockerHub ? "https://index.docker.io/v1/" : host;
  const digest = createHmac("sha256", key).update(JSON.stringify([use, owner.uid, server, username, password]));
  const secretName = `${registrySecretPrefix}${digest.digest("hex").slice(0, 16)}`;
  return { secretName, server, username, password };
}

/** The key is used for tokens too. */
const use = "ramet.dev/registry-secret";
