import type { Manifest } from "ramet";

/** On the API server of these tests nobody acts on Deployments and Services, and no garbage collector removes anything. */
export const notAwaited = (manifest: Manifest): Manifest => {
  const isActedOn = manifest.kind === "Deployment" || manifest.kind === "Service";
  const annotations = {
    ...manifest.metadata.annotations,
    "pulumi.com/deletionPropagationPolicy": "background",
    ...(isActedOn && { "pulumi.com/skipAwait": "true" }),
  };
  return { ...manifest, metadata: { ...manifest.metadata, annotations } };
};
