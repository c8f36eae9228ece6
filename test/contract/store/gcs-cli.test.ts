import { gcsCloud } from "./gcs-cloud.ts";
import { objectsCli } from "./objects-cli.ts";

objectsCli(gcsCloud);
