/** The kubeconfig of the local cluster that runs on this machine, if one does. */
export function localKubeconfig(
  _environment: Readonly<Record<string, string | undefined>>,
): Promise<string | undefined> {
  return Promise.resolve(undefined);
}
