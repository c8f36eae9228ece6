import type { AzureLocation } from "../../src/api/store/store-address.ts";
import { azureBucket } from "../../src/store/objects/azure/azure-bucket.ts";
import { azureCloud } from "../contract/store/azure-cloud.ts";
import { objectsStore } from "./objects-store.ts";

objectsStore(azureCloud, (location) => azureBucket(location as AzureLocation));
