import { startAzureServer } from "../../setup/azure-server.ts";
import type { CloudUnderTest } from "./cloud-under-test.ts";

export const azureCloud: CloudUnderTest = {
  name: "Azure Blob",
  start: () => startAzureServer(),
  elsewhere: (location) => ({ ...location, container: "nowhere" }),
  noBucket: "ContainerNotFound",
  permission: "Storage Blob Data Contributor",
  unknownKey: { variable: "AZURE_STORAGE_KEY", value: Buffer.from("another").toString("base64") },
  signature: "sig=",
  secrets: /sig=|a-secret|YS1zZWNyZXQ/,
};
