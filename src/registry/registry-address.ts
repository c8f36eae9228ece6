import { type ImageReference, parseImageReference } from "../api/names/image-reference.ts";
import { RametError } from "../base/errors.ts";
import { dockerHub } from "./pull-credentials.ts";

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
  const { repository } = reference;
  const slash = repository.indexOf("/");
  const first = slash < 0 ? "" : repository.slice(0, slash);
  // A first component without these is a directory of Docker Hub.
  const hasHost = first === "localhost" || /[.:]/.test(first) || first !== first.toLowerCase();
  const host = hasHost ? first : dockerHub;
  const path = hasHost ? repository.slice(slash + 1) : repository;
  if (host !== dockerHub && host !== "index.docker.io") return { ...reference, host, path };
  return { ...reference, host: dockerHub, path: path.includes("/") ? path : `library/${path}` };
}

/** Of container runtimes: 255 for the repository, 128 for the tag, and the digest. */
const mostNameCharacters = 512;

/** The host and port to connect to. */
export function serverOf(host: string): string {
  return host === dockerHub ? "registry-1.docker.io" : host;
}
