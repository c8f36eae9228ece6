import { join } from "node:path";
import { RametError } from "../base/errors.ts";
import { userDirectory } from "./user-directory.ts";

/** The paths of one local cluster; all that it keeps is below `path`. */
export interface ClusterDirectory {
  name: string;
  path: string;
  kubeconfig: string;
  /** The store's directory: the data of checkpoints. */
  store: string;
  pods: string;
  /** Remembers at which port of 127.0.0.1 the gateway is. */
  gatewayPort: string;
  /** What the cluster's processes are to run with; see `cluster-setting.ts`. */
  setting: string;
  status: string;
  lock: string;
  /** The log of a part, such as `etcd`. */
  log(part: string): string;
}

export const defaultClusterName = "default";

/**
 * The directory of the cluster `name`: `$XDG_DATA_HOME/ramet/<name>`, else `~/.local/share/ramet/<name>` (XDG base
 * directories). It need not exist.
 * @throws RametError `InvalidArgument` if the name is no DNS label
 */
export function clusterDirectory(
  name: string,
  environment: Readonly<Record<string, string | undefined>>,
): ClusterDirectory {
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) {
    throw new RametError("InvalidArgument", `The cluster's name "${name}" is not legal`, {
      hint: "Use small letters, digits and hyphens, at most 63, with a letter or digit at both ends.",
    });
  }
  const path = join(dataDirectory(environment), name);
  return {
    name,
    path,
    kubeconfig: join(path, "kubeconfig"),
    store: join(path, "store"),
    pods: join(path, "pods"),
    gatewayPort: join(path, "gateway-port"),
    setting: join(path, "setting.json"),
    status: join(path, "status.json"),
    lock: join(path, "up.lock"),
    log: (part) => join(path, `${part}.log`),
  };
}

/** Where Ramet keeps what cannot be got again. */
export function dataDirectory(environment: Readonly<Record<string, string | undefined>>): string {
  return userDirectory(environment, "XDG_DATA_HOME", [".local", "share"]);
}
