import type { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import type { SnapshotSource } from "../../api/kinds/named-snapshot.ts";
import { digestOf } from "../../api/cell/template-digest.ts";
import { parseSnapshotReference } from "../../api/snapshot/snapshot-reference.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { RametError } from "../../base/errors.ts";
import type { ServiceParts } from "./parts.ts";
import { findSource } from "./source.ts";

export interface Sizes {
  cpuCount?: number | undefined;
  memoryMB?: number | undefined;
}

/** What a build starts from: a template, a named snapshot or a checkpoint, by the name that a client uses. @throws RametError `NotFound`, `NotSupported` */
export function sourceNamed(parts: ServiceParts, namespace: string, text: string): SnapshotSource {
  const source = findSource(parts, namespace, text);
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
  return { snapshot: { name, ...(version !== undefined && { version }), ...(digest !== undefined && { digest }) } };
}

/** A template of an image, which is created if it does not exist. */
export async function sourceOfImage(
  parts: ServiceParts,
  namespace: string,
  { image, ...sizes }: Sizes & { image: string },
  signal: AbortSignal,
): Promise<SnapshotSource> {
  const resources = resourcesOf(sizes);
  const spec: SandboxTemplateSpec = {
    template: {
      spec: {
        containers: [{ name: "sandbox", image, command: ["sleep", "infinity"], ...(resources && { resources }) }],
      },
    },
  };
  // The name is that of its content, so it is the same for everyone and never changes.
  const name = `image-${digestOf(spec).slice("sha256:".length, "sha256:".length + 16)}`;
  if (parts.known.template(`${namespace}/${name}`) === undefined) {
    await parts.informers.templates.resource
      .create({ apiVersion, kind: "SandboxTemplate", metadata: { namespace, name }, spec }, { signal })
      .catch((error: unknown) => {
        if (RametError.from(error).code !== "AlreadyExists") throw error;
      });
  }
  return { template: { name } };
}

function resourcesOf({ cpuCount, memoryMB }: Sizes) {
  if (cpuCount === undefined && memoryMB === undefined) return undefined;
  const limits = {
    ...(cpuCount !== undefined && { cpu: String(cpuCount) }),
    ...(memoryMB !== undefined && { memory: `${memoryMB}Mi` }),
  };
  return { requests: limits, limits };
}
