import { Sandbox, SandboxSet, SandboxTemplate, type Manifest } from "ramet";

/** Resources with existing sources that never become ready. */
const timeout = "2 seconds";
const transform = {
  object: ({ metadata, ...rest }: Manifest): Manifest => ({
    ...rest,
    metadata: { ...metadata, labels: { team: "a" } },
  }),
};
new SandboxTemplate("python", { image: "python", transform });
new SandboxSet("of-snapshot", { from: "data@7", replicas: 1, timeout, transform });
new SandboxSet("of-template", { from: { template: "theirs" }, replicas: 1, timeout });
new Sandbox("box", { from: "theirs", timeout, transform });
