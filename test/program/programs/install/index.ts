import { RametRuntime, SandboxTemplate, type Manifest } from "ramet";

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

const runtime = new RametRuntime("ramet", {
  image: "registry.example/ramet:1",
  cellImage: "registry.example/ramet-cell:1",
  store: { directory: "/var/lib/ramet", claim: "checkpoints" },
  transform: { object: notAwaited },
});
const template = new SandboxTemplate("python", { image: "python" }, { dependsOn: runtime });

export const mode = runtime.mode;
export const name = template.name;
