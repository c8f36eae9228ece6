import { createCipheriv, createDecipheriv, randomBytes, scryptSync } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import * as z from "zod";
import type { Values } from "./values.ts";

const AnyValues = z.record(z.string(), z.unknown());
const Sealed = z.object({ ciphertext: z.string() });

/** The recorded state of one resource. */
const ResourceState = z.object({
  urn: z.string(),
  type: z.string(),
  name: z.string(),
  custom: z.boolean(),
  id: z.string(),
  parent: z.string(),
  /** URNs, without those of the parent's dependencies. */
  dependencies: z.array(z.string()),
  inputs: AnyValues,
  outputs: AnyValues,
  /** Properties of inputs and outputs that are secrets. In the file, they are encrypted. */
  secrets: z.array(z.string()),
  retainOnDelete: z.boolean(),
  /** The reasons of a failed initialization. */
  initErrors: z.array(z.string()),
  /** Whether another resource has replaced it and it still has to be deleted. */
  isReplaced: z.boolean().optional(),
});
export type ResourceState = z.infer<typeof ResourceState>;
const File = z.object({ resources: z.array(ResourceState) });

/** The state of one stack in a file. Secrets are encrypted with a key derived from the passphrase. */
export class StateFile {
  readonly #path: string;
  readonly #key: Buffer;
  readonly #resources = new Map<string, ResourceState>();
  readonly #replaced = new Set<ResourceState>();

  constructor(path: string, passphrase: string) {
    this.#path = path;
    this.#key = scryptSync(passphrase, "stand-in", 32);
    for (const kept of this.#load()) {
      const opened = this.#open(kept);
      if (opened.isReplaced === true) this.#replaced.add(opened);
      else this.#resources.set(opened.urn, opened);
    }
  }

  get(urn: string): ResourceState | undefined {
    return this.#resources.get(urn);
  }

  list(): ResourceState[] {
    return [...this.#resources.values()];
  }

  /** Replaced resources that still have to be deleted. */
  replaced(): ResourceState[] {
    return [...this.#replaced];
  }

  put(resource: ResourceState): void {
    this.#resources.set(resource.urn, resource);
    this.#save();
  }

  /** Records a replacement and marks the old resource for deletion. */
  replace(old: ResourceState, resource: ResourceState): void {
    this.#replaced.add({ ...old, isReplaced: true });
    this.put(resource);
  }

  rename(old: ResourceState, urn: string): void {
    this.#resources.delete(old.urn);
    this.put({ ...old, urn });
  }

  remove(resource: ResourceState): void {
    if (!this.#replaced.delete(resource)) this.#resources.delete(resource.urn);
    this.#save();
  }

  #load(): ResourceState[] {
    try {
      return File.parse(JSON.parse(readFileSync(this.#path, "utf8"))).resources;
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
      throw error;
    }
  }

  #save(): void {
    const resources = [...this.list(), ...this.replaced()].map((resource) => this.#seal(resource));
    writeFileSync(`${this.#path}.new`, JSON.stringify({ resources }, null, 2), { mode: 0o600 });
    renameSync(`${this.#path}.new`, this.#path);
  }

  #seal(resource: ResourceState): ResourceState {
    return withSecrets(resource, (value) => ({ ciphertext: this.#encrypt(JSON.stringify(value)) }));
  }

  #open(kept: ResourceState): ResourceState {
    return withSecrets(kept, (value) => JSON.parse(this.#decrypt(Sealed.parse(value).ciphertext)) as unknown);
  }

  #encrypt(text: string): string {
    const nonce = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce);
    const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64");
  }

  #decrypt(text: string): string {
    const bytes = Buffer.from(text, "base64");
    const decipher = createDecipheriv("aes-256-gcm", this.#key, bytes.subarray(0, 12));
    decipher.setAuthTag(bytes.subarray(12, 28));
    return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString("utf8");
  }
}

function withSecrets(resource: ResourceState, map: (value: unknown) => unknown): ResourceState {
  const mapped = (values: Values): Values =>
    Object.fromEntries(
      Object.entries(values).map(([key, value]) => [key, resource.secrets.includes(key) ? map(value) : value]),
    );
  return { ...resource, inputs: mapped(resource.inputs), outputs: mapped(resource.outputs) };
}
