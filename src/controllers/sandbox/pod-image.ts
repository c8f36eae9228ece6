import { requestedArchitecture } from "../../api/pod/cell-pod.ts";
import { mainContainer } from "../../api/pod/container-spec.ts";
import { capturedImage, imageOfTemplate, recordedImage, type ResolvedImage } from "../../api/pod/resolved-image.ts";
import { templateRevision } from "../../api/pod/restore-spec.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { RametError } from "../../base/errors.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import type { Cache } from "../cluster/cache.ts";
import type { ImageLookups, PodImageRequest } from "../images/image-lookups.ts";
import type { Origin } from "../origin/origin.ts";

export type PodImage =
  /** The node resolves the name, and knows how the image is started, or nobody does. */
  | { state: "unresolved" }
  | { state: "waiting" }
  | { state: "known"; image: ResolvedImage }
  | { state: "unknown"; error: RametError; retryInMilliseconds: number };

interface NewPod {
  template: PodTemplateSpec;
  origin: Origin;
  checkpoint: Checkpoint | undefined;
}

interface ImageSources {
  cache: Cache;
  imageLookups: ImageLookups | undefined;
  enqueue: (key: string) => void;
}

/**
 * Finds the image of a new Pod. A sandbox that is restored has the image of the checkpoint's source, whatever the tag means now.
 * Otherwise the template's recorded image counts, then that of another sandbox of the same set and revision, and then the registry
 * is asked, in the background.
 */
export function podImage(
  sandbox: Sandbox,
  { template, origin, checkpoint }: NewPod,
  { cache, imageLookups, enqueue }: ImageSources,
): PodImage {
  const { imagePullPolicy } = mainContainer(template);
  // The controllers of a local cluster look nothing up: its node has the images.
  if (imageLookups === undefined) return { state: "unresolved" };
  if (origin.kind !== "new") return known(capturedImage(checkpoint?.metadata, template));
  const image = imageOfTemplate(template) ?? imageOfSet(sandbox, template, cache);
  // Never: the node's own image counts, whatever a registry has under its name.
  if (image !== undefined || imagePullPolicy === "Never") return known(image);
  const found = imageLookups.of(requestOf(sandbox.metadata.namespace, template), () => {
    enqueue(keyOf(sandbox.metadata));
  });
  if (found.state === "running") return { state: "waiting" };
  return found.state === "known" ? found : { ...found, state: "unknown" };
}

function known(image: ResolvedImage | undefined): PodImage {
  return image === undefined ? { state: "unresolved" } : { state: "known", image };
}

/** All sandboxes of a revision run one image, even if the tag moves while the set fills. */
function imageOfSet(sandbox: Sandbox, template: PodTemplateSpec, cache: Cache): ResolvedImage | undefined {
  const owner = controllerOf(sandbox);
  if (owner?.kind !== "SandboxSet") return undefined;
  const { namespace } = sandbox.metadata;
  const revision = templateRevision(template);
  const name = mainContainer(template).image;
  for (const { metadata } of cache.sandboxesOfSet(`${namespace}/${owner.name}`)) {
    const pod = cache.pod(keyOf(metadata));
    if (pod?.metadata.labels?.[labels.podTemplateHash] !== revision) continue;
    const image = recordedImage(pod.metadata, name);
    if (image !== undefined) return image;
  }
  return undefined;
}

function requestOf(namespace: string, template: PodTemplateSpec): PodImageRequest {
  const { spec } = template;
  const account = spec["serviceAccountName"];
  const secrets = Array.isArray(spec["imagePullSecrets"]) ? (spec["imagePullSecrets"] as unknown[]) : [];
  return {
    namespace,
    name: mainContainer(template).image,
    architecture: requestedArchitecture(template),
    pullSecrets: secrets.flatMap((each) => nameOf(each) ?? []),
    serviceAccount: typeof account === "string" && account !== "" ? account : "default",
  };
}

/** The template has no schema for this field. */
function nameOf(value: unknown): string | undefined {
  const name = typeof value === "object" && value !== null && "name" in value ? value.name : undefined;
  return typeof name === "string" && name !== "" ? name : undefined;
}
