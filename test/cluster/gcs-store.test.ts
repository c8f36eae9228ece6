import type { GcsLocation } from "../../src/api/store/store-address.ts";
import { gcsBucket } from "../../src/store/objects/gcs/gcs-bucket.ts";
import { gcsCloud } from "../contract/store/gcs-cloud.ts";
import { objectsStore } from "./objects-store.ts";

objectsStore(gcsCloud, (location) => gcsBucket(location as GcsLocation));
