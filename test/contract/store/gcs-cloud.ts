import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startGcsServer } from "../../setup/gcs-server.ts";
import { makeGcsAccount } from "../../setup/google-account.ts";
import type { CloudUnderTest } from "./cloud-under-test.ts";

/** Where the key of an account lies that the server does not know. */
const strangeKeyPath = join(tmpdir(), `ramet-strange-key-${process.pid}.json`);

export const gcsCloud: CloudUnderTest = {
  name: "Google Cloud Storage",
  start: async () => {
    const server = await startGcsServer();
    await writeFile(strangeKeyPath, makeGcsAccount().keyFile);
    const stop = () => Promise.all([rm(strangeKeyPath), server.stop()]).then(() => undefined);
    return { ...server, stop };
  },
  elsewhere: (location) => ({ ...location, bucket: "nowhere" }),
  noBucket: "NoSuchBucket",
  right: "roles/storage.objectUser",
  strangeKey: { variable: "GOOGLE_APPLICATION_CREDENTIALS", value: strangeKeyPath },
  signature: "X-Goog-Signature=",
  secrets: /X-Goog-|Signature=|PRIVATE KEY|Bearer ey/,
  largestFileBytes: 5 * 2 ** 40,
};
