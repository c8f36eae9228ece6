import { Provider } from "@pulumi/kubernetes";
import { Config } from "@pulumi/pulumi";
import { SandboxSet, SandboxTemplate } from "ramet";

/** A set whose image no node can pull. */
const opts = new Config().getBoolean("ownProvider") === true ? { provider: new Provider("own", {}) } : {};
const template = new SandboxTemplate("broken", { image: "nosuch:9", command: ["sleep", "infinity"] }, opts);
const pool = new SandboxSet("pool", { from: template, replicas: 2 }, opts);

export const name = pool.name;
