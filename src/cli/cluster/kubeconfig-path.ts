import { access } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { RametError } from "../../base/errors.ts";
import { localClusterKubeconfig } from "../../local/local-kubeconfig.ts";

/**
 * Which kubeconfig to use: the one that was given, the first file of `KUBECONFIG` that exists, `~/.kube/config`, or that
 * of the local cluster if it runs. Where `KUBECONFIG` names several files, they are not merged.
 *
 * @throws RametError `NotFound` with what to do when there is none
 */
export async function kubeconfigPath(
  environment: Readonly<Record<string, string | undefined>>,
  given?: string,
): Promise<string> {
  if (given !== undefined) return given;
  const listed = (environment["KUBECONFIG"] ?? "").split(delimiter).filter((path) => path !== "");
  for (const path of listed) if (await exists(path)) return path;
  if (listed[0] !== undefined) {
    throw new RametError("NotFound", `KUBECONFIG names ${listed.join(" and ")}, which does not exist`, {
      hint: "Correct or unset KUBECONFIG, or start a local cluster with: ramet local up",
    });
  }
  const home = environment["HOME"];
  const usual = home === undefined ? undefined : join(home, ".kube", "config");
  if (usual !== undefined && (await exists(usual))) return usual;
  const local = localClusterKubeconfig(environment);
  if (local !== undefined) return local;
  throw new RametError("NotFound", "No cluster is known: there is no kubeconfig, and no local cluster runs", {
    hint: "Run `ramet local up`, or name a kubeconfig with --kubeconfig or KUBECONFIG.",
  });
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
