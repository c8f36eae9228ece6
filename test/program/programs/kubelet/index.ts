import { Config } from "@pulumi/pulumi";
import {
  NamedSnapshot,
  RametRuntime,
  SandboxClone,
  SandboxSet,
  SandboxTemplate,
  copy,
  run,
  start,
  waitFor,
} from "ramet";

const config = new Config();
const runtime = new RametRuntime("ramet", {
  image: config.require("image"),
  cellImage: config.require("cellImage"),
  store: {
    s3: {
      bucket: "checkpoints",
      prefix: "ramet",
      endpoint: config.require("endpoint"),
      secret: "s3",
      // The test server has no certificate.
      allowInsecure: true,
    },
  },
});
const python = new SandboxTemplate(
  "program-python",
  { image: config.require("python"), resources: { cpu: "200m", memory: "256Mi" } },
  { dependsOn: runtime },
);
const data = new NamedSnapshot("program-data", {
  from: python,
  recipe: [
    copy({ path: "/data/seed", content: "a,b\n" }),
    run("seq 1000 > /data/rows"),
    start("python3 -m http.server 8000 --directory /data"),
    waitFor({ port: 8000 }),
  ],
  keepVersions: 5,
});
const pool = new SandboxSet("program-pool", { from: data, replicas: 2 });
const dev = new SandboxClone("program-dev", { from: data, lifetime: "8 hours" });

export const mode = runtime.mode;
export const version = data.version;
export const url = dev.url;
export const set = pool.name;
