import { Config } from "@pulumi/pulumi";
import { SnapshotStack, type Manifest, type SnapshotStackArgs } from "ramet";

/** On the API server of these tests nobody acts on Deployments and Services, and no garbage collector removes anything. */
const notAwaited = (manifest: Manifest): Manifest => {
  const isActedOn = manifest.kind === "Deployment" || manifest.kind === "Service";
  const annotations = {
    ...manifest.metadata.annotations,
    "pulumi.com/deletionPropagationPolicy": "background",
    ...(isActedOn && { "pulumi.com/skipAwait": "true" }),
  };
  return { ...manifest, metadata: { ...manifest.metadata, annotations } };
};

const stack = new SnapshotStack("stack", {
  ...new Config().requireObject<SnapshotStackArgs>("stack"),
  transform: { object: notAwaited },
});

export const facts = stack.facts;
export const classNames = stack.classNames;
