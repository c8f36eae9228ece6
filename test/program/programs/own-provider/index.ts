import { readFileSync } from "node:fs";
import { core, Provider } from "@pulumi/kubernetes";
import { Config } from "@pulumi/pulumi";
import { RametRuntime } from "ramet";
import { notAwaited } from "../not-awaited.mts";

const config = new Config();
const kubeconfig = readFileSync(config.require("kubeconfig"), "utf8");
const provider = new Provider("own", { kubeconfig });
// This label identifies a cluster on one machine, which runs its own controllers.
const labels = { "node.kubernetes.io/instance-type": "ramet-local" };
const annotations = { "pulumi.com/deletionPropagationPolicy": "background" };
const machine = new core.v1.Node("machine", { metadata: { name: "machine", labels, annotations } }, { provider });
const runtime = new RametRuntime(
  "ramet",
  {
    mode: "install",
    image: "registry.example/ramet:1",
    cellImage: "registry.example/ramet-cell:1",
    store: { directory: "/var/lib/ramet", claim: "checkpoints" },
    transform: { object: notAwaited },
    ...(config.getBoolean("passKubeconfig") === true && { kubeconfig }),
  },
  {
    ...(config.getBoolean("useDefaultProvider") !== true && { provider }),
    ...(config.getBoolean("waitForNode") === true && { dependsOn: machine }),
  },
);

export const mode = runtime.mode;
