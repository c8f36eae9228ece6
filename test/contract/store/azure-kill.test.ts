import { azureCloud } from "./azure-cloud.ts";
import { objectsKilled } from "./objects-killed.ts";

objectsKilled(azureCloud);
