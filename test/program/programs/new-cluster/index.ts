import { readFileSync } from "node:fs";
import * as eks from "@pulumi/aws/eks/index.js";
import { Config } from "@pulumi/pulumi";
import { SnapshotStack } from "ramet";

const path = new Config().require("kubeconfig");
const cluster = new eks.Cluster("cluster", { name: "new", roleArn: "role", vpcConfig: { subnetIds: [] } });
// Derived from a value that only the cloud assigns, so it is unknown in the first preview.
const kubeconfig = cluster.arn.apply(() => readFileSync(path, "utf8"));
const stack = new SnapshotStack("snapshots", { cloud: "eks", kubeconfig, eks: { clusterName: cluster.name } });

export const classes = stack.classNames;
export const drivers = stack.facts.drivers;
