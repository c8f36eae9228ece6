import { objectsKilled } from "./objects-killed.ts";
import { gcsCloud } from "./gcs-cloud.ts";

objectsKilled(gcsCloud);
