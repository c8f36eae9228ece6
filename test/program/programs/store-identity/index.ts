import { Config } from "@pulumi/pulumi";
import { AksStoreIdentity, EksStoreIdentity, GkeStoreIdentity } from "ramet";

const config = new Config();
const account = config.get("account") ?? "agents";
const group = "/subscriptions/s-1/resourceGroups/g";
const identity = config.get<"podIdentity" | "irsa">("identity");

const eks = new EksStoreIdentity("on-eks", {
  clusterName: "prod",
  bucket: "agents-checkpoints",
  region: "eu-central-1",
  kmsKeyArn: "arn:aws:kms:key",
  prefix: config.get("prefix") ?? "ramet/prod",
  ...(identity !== undefined && { identity }),
  transform: { cloud: ({ inputs }) => ({ ...inputs, description: "of the platform" }) },
});
const gke = new GkeStoreIdentity("on-gke", { bucket: "agents-checkpoints", project: "agents" });
const aks = new AksStoreIdentity("on-aks", {
  accountId: `${group}/providers/Microsoft.Storage/storageAccounts/${account}`,
  container: "checkpoints",
  resourceGroup: "g",
  location: "westeurope",
  issuerUrl: "https://issuer.example/",
});

export const s3 = eks.store.s3;
export const gcs = gke.store.gcs;
export const azure = aks.store.azure;
