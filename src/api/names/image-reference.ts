import { defined } from "../../base/defined.ts";
export interface ImageReference {
  /** Includes the registry host if there is one. */
  repository: string;
  tag?: string;
  /** `sha256:…`: identifies exactly one image and takes precedence over the tag. */
  digest?: string;
}

/**
 * Parses an image name; undefined for an invalid one. The grammar is that of the OCI distribution specification and of
 * `github.com/distribution/reference`, without its limit on the total length.
 */
export function parseImageReference(text: string): ImageReference | undefined {
  const groups = pattern.exec(text)?.groups;
  if (groups === undefined) return undefined;
  const { repository = "", tag, digest } = groups;
  return defined({ repository, tag, digest });
}

/** The name of Docker Hub in image names. Its entry in Docker's configuration is `https://index.docker.io/v1/`. */
export const dockerHub = "docker.io";

/** The registry and the path of a repository: names of Docker Hub are completed as container runtimes do. */
export function registryPathOf(repository: string): { host: string; path: string } {
  const slash = repository.indexOf("/");
  const first = slash < 0 ? "" : repository.slice(0, slash);
  // A first component without these is a directory of Docker Hub.
  const hasHost = first === "localhost" || /[.:]/.test(first) || first !== first.toLowerCase();
  const host = hasHost ? first : dockerHub;
  const path = hasHost ? repository.slice(slash + 1) : repository;
  if (host !== dockerHub && host !== "index.docker.io") return { host, path };
  return { host: dockerHub, path: path.includes("/") ? path : `library/${path}` };
}

/** Whether the name has a digest, or a tag other than `latest`. */
export function isPinned({ tag, digest }: ImageReference): boolean {
  return digest !== undefined || (tag !== undefined && tag !== "latest");
}

/** Whether the text is the registry of an image name: `host` or `host:port`. */
export function isRegistryHost(text: string): boolean {
  return text.length <= 255 && new RegExp(`^${host}$`).test(text);
}

const hostLabel = "[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?";
const host = `(?:${hostLabel}(?:\\.${hostLabel})*|\\[[0-9a-fA-F:]+\\])(?::[0-9]+)?`;
const component = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";
const pattern = new RegExp(
  `^(?<repository>(?:${host}/)?${component}(?:/${component})*)` +
    "(?::(?<tag>[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}))?" +
    "(?:@(?<digest>[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32,}))?$",
);
