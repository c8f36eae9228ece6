import { Config } from "@pulumi/pulumi";
import { copy, NamedSnapshot, run, SandboxClone, SandboxSet, SandboxTemplate, waitFor } from "ramet";

/** One of each resource, to test that a newer package version accepts the state of an older one. */
const config = new Config();
const base = new SandboxTemplate("base", { image: "python", resources: { cpu: "1", memory: "256Mi" } });
const data = new NamedSnapshot("data", {
  from: base,
  recipe: [
    copy({ path: "/etc/token", secret: config.requireSecret("token"), mode: "0600" }),
    run("echo one > /data", { timeoutSeconds: 30 }),
    waitFor({ file: "/data" }),
  ],
  keepVersions: 3,
});
const child = new NamedSnapshot("child", { from: data, recipe: [run("test -s /data")], contents: ["filesystem"] });
const pool = new SandboxSet("pool", { from: data, replicas: 1 });
const dev = new SandboxClone("dev", { from: child, lifetime: "8 hours", ports: [8000] });

export const digests = [data.digest, child.digest];
export const names = [pool.name, dev.name];
