import { defined } from "../../base/defined.ts";

/**
 * The name of an object for the name that a client uses. Other systems allow `_`, which names of Kubernetes cannot have, so an object
 * has `--` instead.
 */
export function objectNameOf(clientName: string): string {
  return clientName.replaceAll("_", "--");
}

export function clientNameOf(objectName: string): string {
  return objectName.replaceAll("--", "_");
}

export interface ClientName {
  name: string;
  /** As in `python:stable`. */
  tag?: string;
  /** The rest of a reference to a version, as in `python@7`. */
  pin?: string;
}

/**
 * Reads `[namespace/]name[:tag]` and `[namespace/]name@version`, in any case. Any other text, such as a name of another namespace, is a
 * name that no object has.
 */
export function parseClientName(text: string, namespace: string): ClientName {
  const lower = text.toLowerCase();
  const own = lower.startsWith(`${namespace}/`) ? lower.slice(namespace.length + 1) : lower;
  const [, name = own, tag, pin] = /^([^/:@]+)(?::([^/:@]+)|@(.+))?$/.exec(own) ?? [];
  return { name: objectNameOf(name), ...defined({ tag, pin }) };
}
