import { access, constants, mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { RametError } from "../base/errors.ts";

/** The paths of one local cluster. All of its files are below `path`. */
export type ClusterDirectory = ReturnType<typeof clusterDirectory>;

/** The parts that serve metrics. */
export const measuredParts = ["controller", "gateway", "client-api"] as const;
export type MeasuredPart = (typeof measuredParts)[number];

export const defaultClusterName = "default";

/**
 * The directory of the cluster `name`: `$XDG_DATA_HOME/ramet/<name>`, else `~/.local/share/ramet/<name>` (XDG base
 * directories). It may not exist yet.
 * @throws RametError `InvalidArgument` if the name is not a DNS label
 */
export function clusterDirectory(name: string, environment: Readonly<Record<string, string | undefined>>) {
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) {
    throw new RametError("InvalidArgument", `The cluster name "${name}" is invalid`, {
      hint: "Use at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends",
    });
  }
  const path = join(dataDirectory(environment), name);
  return {
    name,
    path,
    kubeconfig: join(path, "kubeconfig"),
    /** The store's directory, with the data of checkpoints. */
    store: join(path, "store"),
    /** The unpacked layers of each namespace, which its sandboxes share. */
    layers: join(path, "layers"),
    pods: join(path, "pods"),
    /** The volumes and snapshots of the CSI driver. */
    volumes: join(path, "volumes"),
    /** The cell's programs of each engine that a checkpoint may need. */
    engines: join(path, "engines"),
    /** Directories with gVisor's side programs and Ramet's gofer. */
    sidePrograms: join(path, "side-programs"),
    /** The files with the ports on 127.0.0.1. */
    gatewayPort: join(path, "gateway-port"),
    clientApiPort: join(path, "client-api-port"),
    /** Directory with the certificates for the domain of sandboxes. */
    tls: join(path, "tls"),
    /** File with the API key of `ramet local env`. */
    clientKey: join(path, "client-key"),
    setting: join(path, "setting.json"),
    status: join(path, "status.json"),
    lock: join(path, "up.lock"),
    /** The log of a part, such as `etcd`. */
    log: (part: string) => join(path, `${part}.log`),
    /** File with the port on 127.0.0.1 on which a part serves its metrics. */
    metricsPort: (part: MeasuredPart) => join(path, `${part}.metrics-port`),
  };
}

/** The parent of all clusters' directories. */
export function dataDirectory(environment: Readonly<Record<string, string | undefined>>): string {
  return userDirectory(environment, "XDG_DATA_HOME", [".local", "share"]);
}

/** RFC 6761 reserves its names for the own machine. */
export const defaultDomain = "ramet.localhost";

/**
 * Reads the domain of a local cluster.
 * @throws RametError `InvalidArgument`. Clients accept no certificate for all names below a domain of one label
 */
export function parseDomain(text: string): string {
  const domain = text.toLowerCase();
  const labels = domain.split(".");
  const isName = labels.length > 1 && labels.every((label) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(label));
  // A host name has at most 253 characters, with the port and the id of a sandbox before the domain.
  if (isName && domain.length <= 180 && !/^[0-9.]+$/.test(domain)) return domain;
  throw new RametError("InvalidArgument", `Invalid domain: ${JSON.stringify(text.slice(0, 200))}`, {
    hint: "Use a DNS name of two or more labels without a port, such as sandboxes.example.org",
  });
}

/** Variables of the XDG base directory specification. */
type DirectoryVariable = "XDG_CACHE_HOME" | "XDG_DATA_HOME";

/**
 * Ramet's directory below `variable`, or below `fallback` in the user's home if it is not set. It may not exist yet.
 * @throws RametError `InvalidArgument` if the user has no home, as in a container that runs as a numeric user
 */
export function userDirectory(
  environment: Readonly<Record<string, string | undefined>>,
  variable: DirectoryVariable,
  fallback: readonly string[],
): string {
  const xdg = environment[variable];
  // The specification says to ignore relative values.
  return join(xdg?.startsWith("/") === true ? xdg : join(home(variable), ...fallback), "ramet");
}

/**
 * Creates a directory that only the user can access, if it is missing.
 * @throws RametError `Forbidden` if it cannot be created or accessed
 */
export async function makeUserDirectory(path: string, variable: DirectoryVariable): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new RametError("Forbidden", `Creating the directory ${path} failed: ${RametError.from(cause).message}`, {
      hint: `Set ${variable} to a writable directory on a disk with free space`,
      cause,
    });
  }
}

function home(variable: DirectoryVariable): string {
  try {
    return homedir();
  } catch (cause) {
    throw new RametError("InvalidArgument", "Finding your home directory failed: you have none and HOME is not set", {
      hint: `Set HOME or ${variable} to a writable directory`,
      cause,
    });
  }
}
