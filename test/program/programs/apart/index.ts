import { Config } from "@pulumi/pulumi";
import { NamedSnapshot, SandboxClone, SandboxSet, SandboxTemplate } from "ramet";

/** Declares a resource in another namespace than its source or its template. */
const python = new SandboxTemplate("python", { namespace: "a", image: "python" });
const kind = new Config().require("kind");
if (kind === "SandboxClone") new SandboxClone("apart", { namespace: "b", from: "data@7", template: python });
else {
  const data = new NamedSnapshot("data", { namespace: "a", from: python });
  if (kind === "SandboxSet") new SandboxSet("apart", { namespace: "b", from: data, replicas: 1 });
  else new NamedSnapshot("apart", { namespace: "b", from: python });
}
