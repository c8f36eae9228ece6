import { generateKeyPairSync, type KeyObject } from "node:crypto";

/** A service account of no Google: what a key file of one says, and the half by which it is known. */
export interface GcsAccount {
  email: string;
  publicKey: KeyObject;
  /** What stands in the file that `GOOGLE_APPLICATION_CREDENTIALS` names. */
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
