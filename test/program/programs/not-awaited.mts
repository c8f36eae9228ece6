import type { Manifest } from "ramet";

/** Skips waits: the API server of these tests has no controllers for Deployments and Services, and no garbage collector. */
export const notAwaited = (manifest: Manifest): Manifest => {
  const isUnmanaged = manifest.kind === "Deployment" || manifest.kind === "Service";
  const annotations = {
    ...manifest.metadata.annotations,
    "pulumi.com/deletionPropagationPolicy": "background",
    ...(isUnmanaged && { "pulumi.com/skipAwait": "true" }),
  };
  return { ...manifest, metadata: { ...manifest.metadata, annotations } };
};
