import { createHmac } from "node:crypto";
import { parseImageReference, dockerHub, registryPathOf } from "../../api/names/image-reference.ts";
import type { OwnerReference } from "../../api/schema/metadata.ts";
import { registrySecretPrefix } from "../../api/names/system-names.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { coreResources } from "../../kube/resource-ref.ts";

export interface RegistryLogin {
  namespace: string;
  image: string;
  username: string;
  password: string;
  /** The named snapshot with which the Secret is deleted. */
  owner: OwnerReference;
  signal: AbortSignal;
}

/** Stores the credentials with which clients build from images of private registries, as Secrets for image pulls. */
export class RegistrySecrets {
  readonly #client: KubeClient;
  readonly #key: () => Promise<Buffer>;

  /** @param key makes names that reveal nothing about what a Secret contains */
  constructor(client: KubeClient, key: () => Promise<Buffer>) {
    this.#client = client;
    this.#key = key;
  }

  /**
   * Creates the Secret unless it exists. The same credentials have the same Secret, so that another build of the same template
   * reuses its steps.
   * @returns its name
   * @throws RametError `InvalidArgument` for an invalid image name
   */
  async store({ namespace, image, username, password, owner, signal }: RegistryLogin): Promise<string> {
    const reference = parseImageReference(image);
    if (reference === undefined)
      throw new RametError("InvalidArgument", `${JSON.stringify(image.slice(0, 200))} is not an image name`);
    const { host } = registryPathOf(reference.repository);
    const server = host === dockerHub ? "https://index.docker.io/v1/" : host;
    const content = JSON.stringify({ auths: { [server]: { username, password } } });
    const digest = createHmac("sha256", await this.#key()).update(JSON.stringify([use, owner.uid, content]));
    const name = `${registrySecretPrefix}${digest.digest("hex").slice(0, 16)}`;
    const metadata = { namespace, name, ownerReferences: [owner] };
    const data = { ".dockerconfigjson": Buffer.from(content).toString("base64") };
    const manifest = { apiVersion: "v1", kind: "Secret", metadata, type: "kubernetes.io/dockerconfigjson", data };
    await this.#client
      .resource(coreResources.secrets)
      .create(manifest, { signal })
      .catch((error: unknown) => {
        if (RametError.from(error).code !== "AlreadyExists") throw error;
      });
    return name;
  }
}

/** The key is used for tokens too. */
const use = "ramet.dev/registry-secret";
