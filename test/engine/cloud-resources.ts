import { isDeepStrictEqual } from "node:util";
import type { Difference, ResourceProvider } from "./resource-provider.ts";
import type { Values } from "./values.ts";

/** The client id of a managed identity. It is a UUID because its users validate it as one. */
export const identityClientId = "5e7f0c4a-0000-4000-8000-57a4d15c11e7";
/** The region of an S3 bucket, which becomes part of its URL. */
export const bucketRegion = "stand-in-1";

/**
 * A stand-in for resources of `aws`, `gcp` and `azure-native` that creates nothing. It returns the inputs as outputs. For values that
 * only a cloud can assign (identities, ARNs, addresses) it returns texts that name the resource type. It does not prove that a cloud
 * would accept the inputs.
 */
export class CloudResources implements ResourceProvider {
  readonly #type: string;

  constructor(type: string) {
    this.#type = type;
  }

  static supports(type: string): boolean {
    return /^(aws|gcp|azure-native):/.test(type);
  }

  check(_olds: Values, news: Values): Promise<Values> {
    return Promise.resolve(news);
  }

  diff(_id: string, old: { inputs: Values }, news: Values): Promise<Difference> {
    const changes = !isDeepStrictEqual(old.inputs, news);
    return Promise.resolve({ changes, replaces: [], deleteBeforeReplace: false });
  }

  create(inputs: Values): Promise<{ id: string; outputs: Values }> {
    const standIn = (what: string): string => `stand-in:${this.#type}:${what}`;
    const made = {
      id: standIn("id"),
      arn: standIn("arn"),
      name: standIn("name"),
      principalId: standIn("principal"),
      region: bucketRegion,
    };
    const email = "stand-in@project.iam.gserviceaccount.com";
    const account = this.#type.startsWith("gcp:serviceaccount/account:")
      ? { email, member: `serviceAccount:${email}` }
      : {};
    const outputs = { ...made, clientId: identityClientId, ...account, ...inputs };
    return Promise.resolve({ id: made.id, outputs });
  }

  update(_id: string, old: Values, news: Values): Promise<Values> {
    return Promise.resolve({ ...old, ...news });
  }

  read(_id: string, outputs: Values): Promise<Values | undefined> {
    return Promise.resolve(outputs);
  }

  delete(): Promise<void> {
    return Promise.resolve();
  }
}
