import { objectsFaults } from "./objects-faults.ts";
import { s3Cloud } from "./s3-cloud.ts";

objectsFaults(s3Cloud);
