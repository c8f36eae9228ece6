import * as z from "zod";
import { CellConfig } from "../../api/wire/cell-api.ts";
import { environmentPrefix } from "../../api/pod/container-spec.ts";
import { defined } from "../../base/defined.ts";
import { RametError, textOfError } from "../../base/errors.ts";
import { directoryInside } from "./pod-view.ts";
import type { NodeImage, NodePod } from "./pod.ts";

/** The programs that a cell needs on the node. */
export interface CellTools {
  runsc: string;
  guest: string;
  link: string;
  /** The directory with gVisor's side programs and Ramet's gofer, if there is the gofer. */
  sidePrograms?: string | undefined;
}

/** A container on the node: its image, its resolved variables, and its place. */
export interface PlacedContainer {
  variables: ReadonlyMap<string, string>;
  image: NodeImage;
  ip: string;
  tools: CellTools;
}

/** The variables of every cell (src/cell/setting/cell-setting.ts). */
export function cellVariables({ image, ip, tools }: PlacedContainer): Record<string, string> {
  const { rootPath, config, digest } = image;
  return {
    RAMET_CELL_DIRECTORY: directoryInside.cell,
    RAMET_CELL_STATE_FILE: directoryInside.stateFile,
    RAMET_ROOT_PATH: rootPath,
    RAMET_IMAGE_CONFIG: JSON.stringify({ ...config, digest }),
    RAMET_CELL_LISTEN: ip,
    RAMET_RUNSC: tools.runsc,
    RAMET_GUEST: tools.guest,
    RAMET_LINK: tools.link,
    ...defined({ RAMET_SIDE_PROGRAMS: tools.sidePrograms }),
  };
}

/**
 * The variables of a sandbox's cell. Only the sandbox's own variables come from the Pod, under their prefix: another name, such as
 * NODE_OPTIONS or LD_PRELOAD, would run code in the cell's process, outside of gVisor.
 * @param mounts the directories of the container's volume mounts as the cell sees them, by mount path
 * @param sharesVolumes whether other containers or later Pods read what the sandbox writes to its volumes
 */
export function cellEnvironment(
  container: PlacedContainer,
  mounts: ReadonlyMap<string, string>,
  sharesVolumes: boolean,
): Record<string, string> {
  const { variables } = container;
  return {
    ...Object.fromEntries([...variables].filter(([name]) => name.startsWith(environmentPrefix))),
    ...cellVariables(container),
    RAMET_CELL: JSON.stringify(withDirectories(cellConfig(variables.get("RAMET_CELL")), mounts)),
    ...(sharesVolumes && { RAMET_CELL_SHARES_VOLUMES: "true" }),
  };
}

/** The setting of the Pod's sandbox. @throws RametError `InvalidArgument` */
export function sandboxConfig(pod: NodePod): CellConfig {
  return cellConfig(pod.spec.containers[0]?.env?.find(({ name }) => name === "RAMET_CELL")?.value);
}

function cellConfig(text: string | undefined): CellConfig {
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
