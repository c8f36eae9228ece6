import * as z from "zod";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, jsonAnnotation } from "../../api/names/labels.ts";
import { RametError } from "../../base/errors.ts";

const Metadata = z.record(z.string(), z.string());

/** All annotations of an object together may have 256 KiB. */
const mostCharacters = 64 * 1024;

/** The annotation with a client's metadata. @throws RametError `InvalidArgument` if it is too large; `NotSupported` for `extensions` */
export function metadataAnnotation(metadata: Record<string, string> = {}): Record<string, string> {
  if (Object.keys(metadata).length === 0) return {};
  const extension = Object.entries(metadata).find(([key, value]) => key.startsWith(extensions) && requests(key, value));
  if (extension !== undefined) {
    const [key] = extension;
    const hint = hints.find(({ keys }) => keys.test(key.slice(extensions.length)))?.hint ?? "Remove it";
    throw new RametError("NotSupported", `metadata[${key}] is not supported`, { hint });
  }
  const text = JSON.stringify(metadata);
  if (text.length > mostCharacters)
    throw new RametError("InvalidArgument", `metadata has more than ${mostCharacters} characters`);
  return { [annotations.clientMetadata]: text };
}

/** The prefix of what OpenKruise's manager does at the request of metadata. */
const extensions = "e2b.agents.kruise.io/";

const hints = [
  { keys: /^csi-/, hint: "Name the volumes in the template of the sandbox: its mounts are fixed when it starts" },
  {
    keys: /^(image|cpu-)/,
    hint: "Create a sandbox from another template: its image and limits are fixed when it starts",
  },
  { keys: /^never-timeout$/, hint: "Request a timeout, or keep the sandbox when it ends: onTimeout is pause" },
  { keys: /^reserve-paused-/, hint: "Remove it: a paused sandbox is kept until it is deleted" },
];

/** Whether an extension asks for something that does not happen without it. */
function requests(key: string, value: string): boolean {
  if (value === "") return false;
  switch (key.slice(extensions.length)) {
    case "create-on-no-stock":
      return value === "false";
    case "reserve-paused-sandbox-duration":
      return value !== "forever";
    // A failed one is kept until it is deleted. The others are answers, which clients copy with the rest of the metadata.
    case "reserve-failed-sandbox":
    case "reserve-failed-sandbox-for":
    case "sandbox-ip":
    case "sandbox-resource":
      return false;
    default:
      return value !== "false";
  }
}

/** The metadata of a sandbox. */
export function metadataOf(sandbox: Sandbox): Record<string, string> {
  return jsonAnnotation(sandbox, annotations.clientMetadata, Metadata) ?? {};
}

/**
 * Reads a filter: `key=value&key2=value2`, in which each key and value is percent-encoded, and then the whole again. An empty one fits
 * all.
 * @throws RametError `InvalidArgument`
 */
export function metadataFilter(text: string): (sandbox: Sandbox) => boolean {
  const pairs = decoded(text, text)
    .split("&")
    .filter(() => text !== "")
    .map((pair) => {
      const [key = "", value, ...others] = pair.split("=");
      if (value === undefined || others.length > 0) throw invalidFilter(text);
      return [decoded(key, text), decoded(value, text)] as const;
    });
  return (sandbox) => {
    const own = metadataOf(sandbox);
    return pairs.every(([key, value]) => own[key] === value);
  };
}

function decoded(part: string, text: string): string {
  try {
    return decodeURIComponent(part.replaceAll("+", " "));
  } catch {
    throw invalidFilter(text);
  }
}

function invalidFilter(text: string): RametError {
  return new RametError("InvalidArgument", `metadata is ${JSON.stringify(text.slice(0, 80))}, not key=value pairs`);
}
