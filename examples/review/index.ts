import { copy, NamedSnapshot, run, SandboxSet, SandboxTemplate, start, waitFor } from "ramet";

// Another stack installs the controllers, so a preview of this one does not need their permissions.
const python = new SandboxTemplate("python", { image: "python:3.13-slim", resources: { cpu: "1", memory: "512Mi" } });
const data = new NamedSnapshot("python-data", {
  from: python,
  recipe: [
    copy("./prepare.py", "/data/prepare.py"),
    run("python3 /data/prepare.py --rows 100000"),
    start("python3 -m http.server 8000", { cwd: "/data" }),
    waitFor({ port: 8000 }),
  ],
  keepVersions: 5,
});
new SandboxSet("pool", { from: data, replicas: 3 });

export const digest = data.digest;
export const version = data.version;
