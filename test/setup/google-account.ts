import { generateKeyPairSync, type KeyObject } from "node:crypto";

/** A service account that does not exist at Google: its key file, and the public key to verify its signatures. */
export interface GcsAccount {
  email: string;
  publicKey: KeyObject;
  /** Content of the file that `GOOGLE_APPLICATION_CREDENTIALS` names. */
  keyFile: string;
}

export function makeGcsAccount(): GcsAccount {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const email = "ramet@project.iam.gserviceaccount.com";
  const keyFile = {
    type: "service_account",
    project_id: "project",
    private_key_id: "1",
    client_id: "1",
    client_email: email,
    private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
  };
  return { email, publicKey, keyFile: JSON.stringify(keyFile) };
}
