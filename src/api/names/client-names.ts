/**
 * The name of an object for the name that a client uses. Other systems allow `_`, which names of Kubernetes cannot have, so an object
 * has `--` instead.
 */
export function objectNameOf(clientName: string): string {
  return clientName.replaceAll("_", "--");
}

/** The name that clients see of an object. */
export function clientNameOf(objectName: string): string {
  return objectName.replaceAll("--", "_");
}
