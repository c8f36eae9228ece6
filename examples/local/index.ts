import {
  RametRuntime,
  SandboxTemplate,
  NamedSnapshot,
  SandboxSet,
  SandboxClone,
  run,
  copy,
  start,
  waitFor,
} from "ramet";

const runtime = new RametRuntime("ramet", { store: { directory: "/var/lib/ramet" } });
const python = new SandboxTemplate(
  "python",
  { image: "python", resources: { cpu: "1", memory: "512Mi" } },
  { dependsOn: runtime },
);
const data = new NamedSnapshot("python-data", {
  from: python,
  recipe: [
    copy("./prepare.py", "/data/prepare.py"),
    run("python3 /data/prepare.py --rows 100000"),
    start("python3 -m http.server 8000"),
    waitFor({ port: 8000 }),
  ],
  keepVersions: 5,
});
const pool = new SandboxSet("pool", { from: data, replicas: 10 });
const dev = new SandboxClone("dev", { from: data, lifetime: "8 hours" });
export const version = data.version,
  digest = data.digest,
  url = dev.url;
