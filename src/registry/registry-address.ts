import { dockerHub, type ImageReference, parseImageReference, registryPathOf } from "../api/names/image-reference.ts";
import { RametError } from "../base/errors.ts";

/** Where a registry serves an image: names of Docker Hub are completed as container runtimes do. */
export interface ImageAddress extends ImageReference {
  /** The host in image names, with the port. */
  host: string;
  /** The repository below the host. */
  path: string;
}

/** @throws RametError `InvalidArgument` for an invalid image name */
export function imageAddress(name: string): ImageAddress {
  const reference = name.length > mostNameCharacters ? undefined : parseImageReference(name);
  if (reference === undefined) {
    throw new RametError(
      "InvalidArgument",
      `${JSON.stringify(name.slice(0, mostNameCharacters))} is not an image name`,
      {
        hint: "Write it as registry.example/repository:tag",
      },
    );
  }
  return { ...reference, ...registryPathOf(reference.repository) };
}

/** The limit of container runtimes: 255 for the repository, 128 for the tag, and the digest. */
const mostNameCharacters = 512;

/** The host and port to connect to. */
export function serverOf(host: string): string {
  return host === dockerHub ? "registry-1.docker.io" : host;
}
