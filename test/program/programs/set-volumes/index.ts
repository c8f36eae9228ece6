import { Config } from "@pulumi/pulumi";
import { type Manifest, NamedSnapshot, SandboxSet, SandboxTemplate } from "ramet";

/** A set from a source with an ephemeral PersistentVolumeClaim. */
const config = new Config();
const choice = config.get<"Empty">("choice");
const object = (manifest: Manifest): Manifest => {
  const { containers } = (manifest["spec"] as { template: { spec: { containers: unknown } } }).template.spec;
  const spec = { containers, volumes: [{ name: "home", ephemeral: {} }] };
  return { ...manifest, spec: { template: { spec } } };
};
const base = new SandboxTemplate("base", { image: "python", transform: { object } });
const data = new NamedSnapshot("data", { from: base, volumesOnRestore: "Empty" });
const from = config.get("from") ?? data;
new SandboxSet("pool", { from, replicas: 1, ...(choice !== undefined && { volumesOnRestore: choice }) });
