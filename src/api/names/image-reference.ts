/** The parts of an image's name, as registries take them apart. */
export interface ImageReference {
  /** With the registry's host, where there is one. */
  repository: string;
  tag?: string;
  /** `sha256:…`: of exactly one image, whatever the tag says by now. */
  digest?: string;
}

/**
 * Takes an image's name apart; undefined for what is none. The grammar is that of the OCI distribution specification and of
 * `github.com/distribution/reference`, without its limit of the whole length.
 */
export function parseImageReference(text: string): ImageReference | undefined {
  const groups = pattern.exec(text)?.groups;
  if (groups === undefined) return undefined;
  const { repository = "", tag, digest } = groups;
  return { repository, ...(tag !== undefined && { tag }), ...(digest !== undefined && { digest }) };
}

/** Whether the name means one image for as long as tags are not moved: by digest, or by a tag that is not `latest`. */
export function isPinned({ tag, digest }: ImageReference): boolean {
  return digest !== undefined || (tag !== undefined && tag !== "latest");
}

const hostLabel = "[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?";
const host = `(?:${hostLabel}(?:\\.${hostLabel})*|\\[[0-9a-fA-F:]+\\])(?::[0-9]+)?`;
const component = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";
const pattern = new RegExp(
  `^(?<repository>(?:${host}/)?${component}(?:/${component})*)` +
    "(?::(?<tag>[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}))?" +
    "(?:@(?<digest>[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32,}))?$",
);
