import * as z from "zod";
import { CellConfig } from "../../api/wire/cell-api.ts";
import { environmentPrefix } from "../../api/pod/container-spec.ts";
import { RametError, textOfError } from "../../base/errors.ts";
import type { NodeImage } from "./pod.ts";
import type { PodDirectory } from "./pod-directory.ts";

/** The programs that a cell needs on the node. */
export interface CellTools {
  runsc: string;
  guest: string;
  link: string;
}

export interface CellEnvironmentOptions {
  /** The resolved variables of the Pod's container. */
  variables: ReadonlyMap<string, string>;
  image: NodeImage;
  /** The directories of the container's volume mounts as the cell sees them, by mount path. */
  mounts: ReadonlyMap<string, string>;
  /** The Pod's directory as the cell sees it. */
  directory: PodDirectory;
  ip: string;
  tools: CellTools;
  /** Whether other containers or later Pods read what the sandbox writes to its volumes. */
  sharesVolumes: boolean;
}

/**
 * The cell's environment variables (src/cell/setting/cell-setting.ts). Only the sandbox's own variables come from the Pod, under
 * their prefix: another name, such as NODE_OPTIONS or LD_PRELOAD, would run code in the cell's process, outside of gVisor.
 */
export function cellEnvironment(options: CellEnvironmentOptions): Record<string, string> {
  const { variables, image, directory, ip, tools, mounts, sharesVolumes } = options;
  const { rootPath, config, digest } = image;
  const cell = withDirectories(cellConfig(variables.get("RAMET_CELL")), mounts);
  return {
    ...Object.fromEntries([...variables].filter(([name]) => name.startsWith(environmentPrefix))),
    RAMET_CELL: JSON.stringify(cell),
    RAMET_ROOT_PATH: rootPath,
    RAMET_IMAGE_CONFIG: JSON.stringify({ ...config, digest }),
    RAMET_CELL_LISTEN: ip,
    RAMET_CELL_DIRECTORY: directory.cell,
    RAMET_CELL_STATE_FILE: directory.stateFile,
    RAMET_RUNSC: tools.runsc,
    RAMET_GUEST: tools.guest,
    RAMET_LINK: tools.link,
    ...(sharesVolumes && { RAMET_CELL_SHARES_VOLUMES: "true" }),
  };
}

/** @throws RametError `InvalidArgument` */
export function cellConfig(text: string | undefined): CellConfig {
  try {
    return CellConfig.parse(JSON.parse(text ?? ""));
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : textOfError(error);
    throw new RametError("InvalidArgument", `spec.containers[0].env: RAMET_CELL is invalid: ${why}`, {
      cause: error,
    });
  }
}

/** Replaces the container's mount paths by directories below the Pod's directory. */
function withDirectories(config: CellConfig, mounts: ReadonlyMap<string, string>): CellConfig {
  const directoryOf = (source: string): string => {
    const directory = mounts.get(source);
    if (directory !== undefined) return directory;
    throw new RametError("InvalidArgument", `RAMET_CELL names ${source}, but the container has no volume mount there`);
  };
  const container = {
    ...config.container,
    mounts: config.container.mounts.map((mount) => ({ ...mount, source: directoryOf(mount.source) })),
  };
  return { ...config, container };
}
