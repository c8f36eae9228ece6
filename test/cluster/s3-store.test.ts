import type { S3Location } from "../../src/api/store/store-address.ts";
import { s3Bucket } from "../../src/store/objects/s3/s3-bucket.ts";
import { s3Cloud } from "../contract/store/s3-cloud.ts";
import { objectsStore } from "./objects-store.ts";

objectsStore(s3Cloud, (location) => s3Bucket(location as S3Location));
