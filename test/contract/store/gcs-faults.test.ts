import { objectsFaults } from "./objects-faults.ts";
import { gcsCloud } from "./gcs-cloud.ts";

objectsFaults(gcsCloud);
