import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startGcsServer } from "../../setup/gcs-server.ts";
import { makeGcsAccount } from "../../setup/google-account.ts";
import type { CloudUnderTest } from "./cloud-under-test.ts";

/** Key file of an account that the server does not know. */
const unknownKeyPath = join(tmpdir(), `ramet-unknown-key-${process.pid}.json`);

export const gcsCloud: CloudUnderTest = {
  name: "Google Cloud Storage",
  start: async () => {
    const server = await startGcsServer();
    await writeFile(unknownKeyPath, makeGcsAccount().keyFile);
    const stop = () => Promise.all([rm(unknownKeyPath), server.stop()]).then(() => undefined);
    return { ...server, stop };
  },
  elsewhere: (location) => ({ ...location, bucket: "nowhere" }),
  noBucket: "NoSuchBucket",
  permission: "roles/storage.objectUser",
  unknownKey: { variable: "GOOGLE_APPLICATION_CREDENTIALS", value: unknownKeyPath },
  signature: "X-Goog-Signature=",
  secrets: /X-Goog-|Signature=|PRIVATE KEY|Bearer ey/,
};
