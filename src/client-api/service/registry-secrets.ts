import { createHmac } from "node:crypto";
import { parseImageReference, dockerHub, registryPathOf } from "../../api/names/image-reference.ts";
import type { OwnerReference } from "../../api/schema/metadata.ts";
import { registrySecretPrefix } from "../../api/names/system-names.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { createUnlessExists } from "../../kube/apply.ts";
import { coreResources } from "../../kube/resource-ref.ts";

interface RegistryLogin {
  namespace: string;
  image: string;
  username: string;
  password: string;
  /** The named snapshot with which the Secret is deleted. */
  owner: OwnerReference;
  signal: AbortSignal;
}

/**
 * Stores the credentials with which a client builds from an image of a private registry, as a Secret for image pulls. The same
 * credentials have the same Secret, so that another build of the same template reuses its steps.
 * @param key makes names that reveal nothing about the content of a Secret
 * @returns its name
 * @throws RametError `InvalidArgument` for an invalid image name
 */
export async function storeRegistryLogin(
  client: KubeClient,
  key: () => Promise<Buffer>,
  { namespace, image, username, password, owner, signal }: RegistryLogin,
): Promise<string> {
  const reference = parseImageReference(image);
  if (reference === undefined)
    throw new RametError("InvalidArgument", `${JSON.stringify(image.slice(0, 200))} is not an image name`);
  const { host } = registryPathOf(reference.repository);
  const server = host === dockerHub ? "https://index.docker.io/v1/" : host;
  const content = JSON.stringify({ auths: { [server]: { username, password } } });
  const digest = createHmac("sha256", await key()).update(JSON.stringify([use, owner.uid, content]));
  const name = `${registrySecretPrefix}${digest.digest("hex").slice(0, 16)}`;
  const metadata = { namespace, name, ownerReferences: [owner] };
  const data = { ".dockerconfigjson": Buffer.from(content).toString("base64") };
  const manifest = { apiVersion: "v1", kind: "Secret", metadata, type: "kubernetes.io/dockerconfigjson", data };
  await createUnlessExists(client.resource(coreResources.secrets), manifest, signal);
  return name;
}

/** The key is used for tokens too. */
const use = "ramet.dev/registry-secret";
