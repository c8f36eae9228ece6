import { objectsCli } from "./objects-cli.ts";
import { azureCloud } from "./azure-cloud.ts";

objectsCli(azureCloud);
