import { clusterTemplatePrefix } from "../../api/names/system-names.ts";
import { apiVersion } from "../../api/schema/kind.ts";

/** Names that E2B's clients use, and the templates of the local cluster that they mean: options of `ramet client-api`. */
export const templateAliases = ["base=python", "code-interpreter-v1=code-interpreter"].flatMap((alias) => [
  "--template-alias",
  alias,
]);

/** The templates of a new cluster, one for each image that Ramet builds. */
export const clusterTemplates = [
  template("python", { command: ["sleep", "infinity"] }),
  template("code-interpreter", {
    ports: [{ containerPort: 49999 }],
    // Ready means that code can run.
    startupProbe: { httpGet: { path: "/health", port: 49999 }, periodSeconds: 1, failureThreshold: 120 },
  }),
];

function template(image: string, container: object) {
  return {
    apiVersion,
    kind: "SandboxTemplate",
    metadata: { namespace: "default", name: `${clusterTemplatePrefix}${image}` },
    spec: { template: { spec: { containers: [{ name: "sandbox", image, ...container }] } } },
  };
}
