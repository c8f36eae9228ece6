import { CellConfig } from "../../api/wire/cell-api.ts";
import { containerSpec } from "../../api/pod/container-spec.ts";
import type { Container } from "../../api/schema/pod-template.ts";
import { RametError } from "../../base/errors.ts";
import { cellConfig, type CellTools } from "./cell-environment.ts";
import type { NodeImage, NodePod } from "./pod.ts";
import type { PodDirectory } from "./pod-directory.ts";

export interface SideContainerOptions {
  container: Container;
  /** Its resolved variables. */
  variables: ReadonlyMap<string, string>;
  image: NodeImage;
  /** Its volumes as its cell sees them. */
  mounts: readonly { source: string; target: string; readOnly: boolean }[];
  /** Its directory as its cell sees it. */
  directory: PodDirectory;
  ip: string;
  tools: CellTools;
}

/**
 * The environment of the cell that runs an init container or a sidecar: a gVisor sandbox of its own, with the egress policy
 * of the Pod's sandbox (docs/decisions/0021-side-containers.md).
 */
export function sideContainerEnvironment(pod: NodePod, options: SideContainerOptions): Record<string, string> {
  const { container, variables, image, mounts, directory, ip, tools } = options;
  // Resolved values are not expanded again.
  const env = [...variables].map(([name, value]) => ({ name, value: value.replaceAll("$", "$$$$") }));
  const { spec } = containerSpec({ spec: { ...pod.spec, containers: [{ ...container, env }], volumes: [] } });
  const { config: imageConfig, digest, rootPath } = image;
  if (
    spec.command.length === 0 &&
    imageConfig.entrypoint.length === 0 &&
    imageConfig.cmd.length === 0 &&
    spec.args.length === 0
  )
    throw new RametError(
      "InvalidArgument",
      `no command specified: neither container ${container.name} nor its image has one`,
    );
  const user = spec.userOfImage === true ? (imageConfig.user ?? spec.user) : spec.user;
  if (container.securityContext?.["runAsNonRoot"] === true && user.uid === 0)
    throw new RametError("InvalidArgument", `container has runAsNonRoot and ${container.name} will run as root`);
  const { dns, egress, clusterRanges, publicKey } = sandboxConfig(pod);
  const config = CellConfig.parse({
    v: 1,
    sandbox: {
      namespace: pod.metadata.namespace,
      name: pod.metadata.name,
      uid: `${pod.metadata.uid}-${container.name}`,
    },
    container: { ...spec, mounts },
    rootPath,
    templateDigest: "none",
    start: "boot",
    graceSeconds: pod.spec.terminationGracePeriodSeconds ?? 30,
    publicKey,
    dns,
    egress,
    clusterRanges,
  });
  return {
    RAMET_CELL: JSON.stringify(config),
    RAMET_CELL_SIDE_CONTAINER: "true",
    RAMET_CELL_SHARES_VOLUMES: "true",
    RAMET_ROOT_PATH: rootPath,
    RAMET_IMAGE_CONFIG: JSON.stringify({ ...imageConfig, digest }),
    RAMET_CELL_LISTEN: ip,
    RAMET_CELL_DIRECTORY: directory.cell,
    RAMET_CELL_STATE_FILE: directory.stateFile,
    RAMET_RUNSC: tools.runsc,
    RAMET_GUEST: tools.guest,
    RAMET_LINK: tools.link,
  };
}

/** The setting of the Pod's sandbox. */
export function sandboxConfig(pod: NodePod): CellConfig {
  return cellConfig(pod.spec.containers[0]?.env?.find(({ name }) => name === "RAMET_CELL")?.value);
}
