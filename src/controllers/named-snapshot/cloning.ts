import { findIgnoredInTemplate } from "../../api/fields/find-ignored.ts";
import { type NamedSnapshot, type VersionContent, versionContents } from "../../api/kinds/named-snapshot.ts";
import { allVolumes } from "../../api/kinds/sandbox-parts.ts";
import { restoreFromAnnotations } from "../../api/names/labels.ts";
import type { Capture, Cloning } from "./state.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import {
  acsCapturable,
  acsCheckpointSpec,
  acsClone,
  acsKeptTemplate,
  acsTemplateOf,
} from "../../backends/acs/acs-clone.ts";
import { RametError } from "../../base/errors.ts";
import { keyOf } from "../../kube/object.ts";
import type { Cache } from "../cluster/cache.ts";
import type { Informers } from "../cluster/resources.ts";

/** Ramet's controllers add the kept template to a clone, and record what a checkpoint contains. */
export const ownCloning: Cloning = {
  builder: (_, base) =>
    "template" in base
      ? { annotations: {}, spec: { ...base.template, pauseStrategy: undefined } }
      : { annotations: { [restoreFromAnnotations[0]]: base.checkpointId }, spec: {} },
  captureSpec: (snapshot, capture) => ({
    sandboxName: capture.sandboxName,
    keepRunning: true,
    persistentContents: contentsOf(snapshot, capture),
    ...(snapshot.spec.contents.includes("volumes") && { consistency: "atomic", ...volumesOf(snapshot) }),
  }),
  hasLayers: true,
  hasMemory: ({ status }) => status?.ramet?.contents?.includes("memory") ?? false,
  ignoredIn: (name, spec) => findIgnoredInTemplate({ name, spec }, replaced),
  refusal: () => undefined,
  problemOf: () => undefined,
  keep: () => Promise.resolve(),
};

/** A capture that names no volumes would have those of the builder, which a sandbox as the source may name. */
function volumesOf({ spec: { volumes = [allVolumes] } }: NamedSnapshot): { volumes: string[] } {
  return { volumes };
}

/** Fields of a template that a named snapshot has itself, or that a build does not need. */
const replaced = { persistentContents: [], volumes: [], pauseStrategy: {} };

/** A step and a source are always captured with their memory, and with their volumes if the version has them. A layer is files. */
export function contentsOf({ spec: { contents } }: NamedSnapshot, capture: Capture): VersionContent[] {
  if (capture.of === "version") return [...contents];
  if (capture.of === "step" && capture.asLayer) return ["filesystem"];
  return versionContents.filter((content) => content !== "volumes" || contents.includes(content));
}

interface BesideCloningOptions {
  cache: Pick<Cache, "checkpointById" | "sandbox" | "template">;
  informers: Pick<Informers, "templates">;
}

/**
 * Beside the controllers of OpenKruise Agents and ACS. A clone has the whole template of its source, which is kept as they keep it:
 * in a SandboxTemplate with the name of the Checkpoint, which owns it.
 */
export function besideCloning({ cache, informers }: BesideCloningOptions): Cloning {
  const problemOf = (checkpoint: Checkpoint): RametError | undefined =>
    cache.template(keyOf(checkpoint.metadata)) === undefined ? withoutTemplate(checkpoint) : undefined;
  return {
    builder: (namespace, base) => {
      if ("template" in base) {
        return { annotations: {}, spec: { ...acsCapturable(base.template), pauseStrategy: undefined } };
      }
      const checkpoint = cache.checkpointById(namespace, base.checkpointId);
      const template = checkpoint && cache.template(keyOf(checkpoint.metadata));
      if (template === undefined) throw withoutTemplate({ metadata: { name: base.checkpointId, namespace } });
      const { annotations, spec } = acsClone(template.spec, base.checkpointId);
      return { annotations, spec: { ...spec, pauseStrategy: undefined } };
    },
    captureSpec: (snapshot, capture) =>
      acsCheckpointSpec(
        capture.sandboxName,
        contentsOf(snapshot, capture).filter((content) => content !== "volumes"),
        // Their checkpoints have no known size, so a budget for steps cannot apply.
        capture.of === "step" ? stepTimeToLive : undefined,
      ),
    hasLayers: false,
    // Unset: both. (Source: the page of ACS.)
    hasMemory: ({ spec }) => spec.persistentContents?.includes("memory") ?? true,
    // The other controllers apply them.
    ignoredIn: () => [],
    refusal: ({ spec }) =>
      spec.contents.includes("volumes") ? withoutVolumes() : spec.layers === true ? withoutLayers() : undefined,
    problemOf,
    keep: async (checkpoints) => {
      for (const checkpoint of checkpoints) {
        const source = cache.sandbox(`${checkpoint.metadata.namespace}/${checkpoint.spec.podName ?? ""}`);
        const isKept = problemOf(checkpoint) === undefined;
        const template = source && templateOf(source, cache);
        if (isKept || template === undefined || checkpoint.metadata.deletionTimestamp !== undefined) continue;
        await informers.templates.resource.ensure(acsKeptTemplate(checkpoint, template));
      }
    },
  };
}

function withoutVolumes(): RametError {
  return new RametError(
    "NotSupported",
    "The controllers of OpenKruise Agents and ACS capture no PersistentVolumeClaims",
    { hint: "Remove volumes from spec.contents" },
  );
}

function withoutLayers(): RametError {
  return new RametError("NotSupported", "The controllers of OpenKruise Agents and ACS make no layers of files", {
    hint: "Remove spec.layers",
  });
}

const stepTimeToLive = "7d";

/** Undefined if the SandboxTemplate to which it refers does not exist. */
function templateOf(source: Sandbox, cache: Pick<Cache, "template">): SandboxTemplateSpec | undefined {
  const { templateRef } = source.spec;
  const named = templateRef && cache.template(`${source.metadata.namespace}/${templateRef.name}`)?.spec;
  const whole = acsTemplateOf(source, named);
  return whole.template === undefined ? undefined : whole;
}

function withoutTemplate({
  metadata: { name, namespace = "" },
}: {
  metadata: { name: string; namespace?: string };
}): RametError {
  return new RametError(
    "NotFound",
    `The checkpoint ${name} cannot be cloned: the namespace ${namespace} has no SandboxTemplate with the name of the Checkpoint, which holds the template of its source`,
    { hint: "Create the SandboxTemplate with the template of the checkpoint's source" },
  );
}
