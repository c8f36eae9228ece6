import { azureCloud } from "./azure-cloud.ts";
import { objectsFaults } from "./objects-faults.ts";

objectsFaults(azureCloud);
