import { RametRuntime, SandboxTemplate } from "ramet";
import { notAwaited } from "../not-awaited.mts";

const runtime = new RametRuntime("ramet", {
  image: "registry.example/ramet:1",
  cellImage: "registry.example/ramet-cell:1",
  store: { directory: "/var/lib/ramet", claim: "checkpoints" },
  transform: { object: notAwaited },
});
const template = new SandboxTemplate("python", { image: "python" }, { dependsOn: runtime });

export const mode = runtime.mode;
export const name = template.name;
