import * as z from "zod";
import { sandboxKind, type SandboxManifest } from "../../../src/api/kinds/sandbox.ts";
import { restoreFromAnnotations } from "../../../src/api/names/labels.ts";
import { diffByTable, type DiffResult, type DiffTable, type Values } from "../handler.ts";
import { ownerAnnotation } from "../owner.ts";

const Port = z.int().min(1).max(65_535);

/** What the state of a stack keeps of a clone. */
export const SandboxCloneInputs = z.looseObject({
  name: z
    .string()
    .regex(
      /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/,
      "must be a DNS label: lower-case letters, digits and '-', at most 63",
    ),
  namespace: z.string().min(1),
  /** A checkpoint id, or a named snapshot with or without a version. */
  from: z.string().min(1),
  /** The SandboxTemplate's spec that the snapshot was built from, where the program knows it. */
  template: z.looseObject({ template: z.record(z.string(), z.unknown()).optional() }).optional(),
  /** Reachable at the sandbox's address; the first is that of the URL. */
  ports: z.array(Port).optional(),
  /** Whether the ports are those that the recipe of the snapshot waits for, and not of the program's own choice. */
  portsFollow: z.boolean().optional(),
  /** After which the sandbox is deleted: `8 hours`. */
  lifetime: z.string().optional(),
  timeout: z.string(),
  owner: z.string(),
});
export type SandboxCloneInputs = z.infer<typeof SandboxCloneInputs>;

/** A clone keeps what it was made from: for anything else another one is made. */
const sandboxCloneDiff: DiffTable = {
  name: "immutable",
  namespace: "immutable",
  from: "immutable",
  ports: "immutable",
  lifetime: "mutable",
  portsFollow: "ignored",
  template: "ignored",
  timeout: "ignored",
  owner: "ignored",
};

/** It keeps the ports of the recipe that it was made from, too, when that waits for others. */
export function diffSandboxClone(olds: Values, news: Values): DiffResult {
  // A state from before that was told apart is taken to follow.
  const follows = news["portsFollow"] === true && olds["portsFollow"] !== false;
  return diffByTable(sandboxCloneDiff, olds, follows ? { ...news, ports: olds["ports"] } : news);
}

/** The object that is applied. */
export function manifestOf(inputs: SandboxCloneInputs, spec: SandboxManifest["spec"]): SandboxManifest {
  const { name, namespace, from, owner } = inputs;
  return {
    apiVersion: sandboxKind.apiVersion,
    kind: "Sandbox",
    metadata: { name, namespace, annotations: { [restoreFromAnnotations[0]]: from, [ownerAnnotation]: owner } },
    spec,
  };
}
