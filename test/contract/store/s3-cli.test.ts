import { s3Cloud } from "./s3-cloud.ts";
import { objectsCli } from "./objects-cli.ts";

objectsCli(s3Cloud);
