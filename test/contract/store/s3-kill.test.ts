import { objectsKilled } from "./objects-killed.ts";
import { s3Cloud } from "./s3-cloud.ts";

objectsKilled(s3Cloud);
