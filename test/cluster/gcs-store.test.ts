import type { GcsLocation } from "../../src/api/gcs-address.ts";
import { gcsBucket } from "../../src/store/objects/gcs.ts";
import { gcsCloud } from "../contract/store/gcs-cloud.ts";
import { objectsStore } from "./objects-store.ts";

objectsStore(gcsCloud, (location) => gcsBucket(location as GcsLocation));
