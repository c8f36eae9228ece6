import { readFileSync } from "node:fs";
import { Config } from "@pulumi/pulumi";
import { copy, NamedSnapshot, Provider, run, SandboxClone, SandboxSet, SandboxTemplate } from "ramet";

const config = new Config();
const kubeconfig = readFileSync(config.require("kubeconfig"), "utf8");
const cluster = config.getBoolean("ownProvider") === true ? new Provider("cluster", { kubeconfig }) : undefined;
const own = cluster && { provider: cluster };
const of = cluster && { providers: [cluster] };
const python = new SandboxTemplate("own-python", { image: "python" }, of);
const data = new NamedSnapshot(
  "own-data",
  { from: python, recipe: [copy({ path: "/etc/token", secret: config.requireSecret("token") }), run("echo 1 > /one")] },
  own,
);
new SandboxSet("own-pool", { from: data, replicas: 1 }, of);
const dev = new SandboxClone("own-dev", { from: data }, own);

export const { digest, reference } = data;
export const clone = dev.checkpointId;
