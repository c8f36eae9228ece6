import * as z from "zod";
import { registrySecretPrefix } from "../names/system-names.ts";
import { ObjectMeta } from "../schema/metadata.ts";
import { sealBytes } from "../../base/authenticated-encryption.ts";

/** The ConfigMap in `ramet-system` with the public key for which the client API seals secrets of its clients. */
export const credentialKeyMap = "ramet-credential-key";

/** A ConfigMap with the key, base64url of 32 bytes. */
export const CredentialKey = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({
    publicKey: z.string().regex(/^[\w-]{43}$/, "is not the base64url of 32 bytes"),
  }),
});
export type CredentialKey = z.infer<typeof CredentialKey>;

const form = "v1.";

/** The identity for which a text is sealed. It can be opened for the same use in the same namespace only. */
export function sealIdentity(namespace: string, use: "sandbox" | "secret" | "request"): string {
  return `${use}:${namespace}`;
}

/** The identity for which the login of a registry is sealed: it can be opened for the builds of one named snapshot only. */
export function loginIdentity({ namespace, uid }: { namespace: string; uid: string }): string {
  return `registry:${namespace}/${uid}`;
}

/** The login of a registry from which a client builds. The controllers make a Secret for image pulls of it. */
export const RegistryLogin = z.strictObject({
  secretName: z.string().regex(new RegExp(`^${registrySecretPrefix}[0-9a-f]{16}$`)),
  /** As Docker's `config.json` names it. */
  server: z.string().min(1).max(300),
  username: z.string(),
  password: z.string(),
});
export type RegistryLogin = z.infer<typeof RegistryLogin>;

/** Seals a text that only the controllers can open. */
export function sealFor(publicKey: string, identity: string, text: string): string {
  const sealed = sealBytes(Buffer.from(publicKey, "base64url"), Buffer.from(text), identity);
  return `${form}${sealed.toString("base64url")}`;
}

/** The sealed bytes; undefined for a text of another form. */
export function sealedBytes(text: string): Buffer | undefined {
  return text.startsWith(form) ? Buffer.from(text.slice(form.length), "base64url") : undefined;
}
