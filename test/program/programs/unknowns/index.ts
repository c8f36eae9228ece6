import { Config, interpolate } from "@pulumi/pulumi";
import { copy, NamedSnapshot, run, SandboxClone, SandboxSet, SandboxTemplate } from "ramet";

/** Uses outputs of the first clone for all properties, so that they are unknown until it exists. */
const config = new Config();
const base = new SandboxTemplate("base", { image: "python" });
const first = new SandboxClone("first", { from: "some-checkpoint" });
const later = first.checkpointId;
const data = new NamedSnapshot("data", {
  name: interpolate`data-${later}`,
  namespace: later,
  from: { checkpoint: later },
  recipe: [run(interpolate`echo ${later}`), copy({ path: interpolate`/${later}`, secret: later })],
  keepVersions: later.apply((text) => text.length),
  timeout: config.get("timeout") ?? later.apply((text) => `${text.length} hours`),
});
const child = new NamedSnapshot("child", { from: data, recipe: [run("true", { env: { LATER: later } })] });
const ofTemplate = new SandboxTemplate("later", { image: interpolate`python:${later}` });
const grandchild = new NamedSnapshot("grandchild", { from: ofTemplate, recipe: [run("true")] });
const pool = new SandboxSet("pool", { from: data, replicas: later.apply((text) => text.length) });
const dev = new SandboxClone("dev", {
  name: interpolate`dev-${later}`,
  from: interpolate`data@${data.version}`,
  lifetime: later.apply((text) => `${text.length} hours`),
  ports: [later.apply((text) => text.length)],
});
const known = new NamedSnapshot("known", { from: base, recipe: [run("true")] });

export const digests = [data.digest, child.digest, grandchild.digest];
export const knownDigest = known.digest;
export const names = [pool.name, dev.name];
