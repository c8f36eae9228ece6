import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { cellPort } from "../../api/wire/cell-api.ts";
import { mainContainer } from "../../api/pod/container-spec.ts";
import type { Container, Volume } from "../../api/schema/pod-template.ts";
import { RametError } from "../../base/errors.ts";
import { signalProcess } from "../../base/process-identity.ts";
import type { Clock } from "../../base/clock.ts";
import type { Claims } from "./claims.ts";
import type { CellImages } from "./engine-bundles.ts";
import { cellEnvironment } from "./cell-environment.ts";
import { launchPod } from "./launch-pod.ts";
import { PodDirectory } from "./pod-directory.ts";
import { PodProcess } from "./pod-process.ts";
import { podVariables } from "./pod-variables.ts";
import { type MachineView, pathInside } from "./pod-view.ts";
import { needsBinds, podVolumes, volumeBinds, volumeMounts } from "./pod-volumes.ts";
import { hasSideContainers, type ImageSource, type NodeImage, type NodePod, type PodObjects } from "./pod.ts";
import type { SparePods } from "./spare-pods.ts";

/** The dependencies with which a node starts the containers of Pods. */
export interface PodStarterOptions {
  /** The directory of all Pods' directories. */
  pods: string;
  images: ImageSource;
  objects: PodObjects;
  claims: Pick<Claims, "directoryOf">;
  nodeName: string;
  /** The node's address. */
  hostIP: string;
  cells: CellImages;
  /** Environment variables of every cell, such as PATH. */
  environment: Record<string, string>;
  view: MachineView;
  spares: SparePods;
  clock: Clock;
}

/**
 * Starts the process of one Pod.
 * @throws RametError `ImageNotFound`; `NotFound` for a missing ConfigMap or Secret; `InvalidArgument`
 */
export async function startPod(
  options: PodStarterOptions,
  pod: NodePod,
  { taken, onChange, ip: known }: { taken: ReadonlySet<string>; onChange: () => void; ip: string | undefined },
): Promise<PodProcess> {
  const { namespace, name, uid } = pod.metadata;
  const container = mainContainer(pod);
  const directory = new PodDirectory(options.pods, uid);
  const { cells, objects, claims, hostIP, nodeName, clock, view, spares } = options;
  const [image, ip] = await Promise.all([podImage(options.images, pod, container), known ?? chooseAddress(uid, taken)]);
  const programs = cells.programs(container.image);
  const build = await cells.build(programs);
  const hasBinds = needsBinds(pod, container);
  // A spare runs the current cell, and what it sees of the machine is fixed.
  const canBeSpare = programs === cells.current && !hasBinds && !hasSideContainers(pod);
  const spare = canBeSpare ? spares.take(directory, namespace) : undefined;
  directory.make();
  const { tools, cell } = programs;
  try {
    await image.hold?.(directory.path);
    const variables = await podVariables(pod, container, { objects, place: { podIP: ip, hostIP, nodeName } });
    const volumes = volumeMounts(container, await podVolumes(pod, { directory, objects, claims }), variables);
    const binds = hasBinds ? volumeBinds(volumes) : [];
    const mounts = new Map(
      volumes.map(({ target, volume }, index) => [target, binds[index]?.target ?? pathInside(directory, volume.path)]),
    );
    const environment = {
      ...options.environment,
      ...build,
      ...cellEnvironment({ variables, image, ip, tools }, mounts, hasShared(pod)),
      RAMET_CELL_LAYERS: join(view.layers, namespace),
    };
    const launched =
      spare ??
      (await launchPod({ link: tools.link, cell, environment, directory, namespace, binds, view, spare: false }));
    const identity = { uid, namespace, name, ip, ...(spare && { spare: spare.name }) };
    const process = PodProcess.start({ directory, clock, onChange, launched, identity });
    spare?.give(environment);
    return process;
  } catch (error) {
    if (spare !== undefined) signalProcess(spare.process, "SIGKILL");
    throw error;
  }
}

/** Whether others read what the sandbox writes to its volumes: further containers, or later Pods that mount a claim. */
function hasShared(pod: NodePod): boolean {
  return (
    hasSideContainers(pod) || pod.spec.volumes?.some((volume) => volume["persistentVolumeClaim"] !== undefined) === true
  );
}

/** The image of the Pod's image volume: the sandbox's root filesystem. */
function podImage(images: ImageSource, pod: NodePod, container: Container): Promise<NodeImage> {
  const mounted = new Set(container.volumeMounts?.map(({ name }) => name));
  const volume = pod.spec.volumes?.find((one) => mounted.has(one.name) && imageOf(one) !== undefined);
  const image = volume === undefined ? undefined : imageOf(volume);
  if (image === undefined) {
    throw new RametError("InvalidArgument", "spec.volumes has no image volume for the sandbox's root filesystem");
  }
  return images.image(image.reference, image.pullPolicy ?? "IfNotPresent");
}

function imageOf(volume: Volume): { reference: string; pullPolicy?: "Always" | "IfNotPresent" | "Never" } | undefined {
  // The API server has validated it against the Pod API.
  return volume["image"] as ReturnType<typeof imageOf>;
}

const maxTries = 64;

/**
 * Chooses a loopback address for a Pod in 127.64.0.0/10 that is not in `taken` and is free on the machine: other clusters
 * and users choose from the same range. On Linux every address of 127.0.0.0/8 is local without configuration.
 */
export async function chooseAddress(uid: string, taken: ReadonlySet<string>): Promise<string> {
  for (let attempt = 0; attempt < maxTries; attempt += 1) {
    const address = candidate(uid, attempt);
    if (!taken.has(address) && (await isFree(address))) return address;
  }
  throw new RametError(
    "Unavailable",
    `Choosing an address for Pod ${uid} failed: all ${maxTries} candidates are in use`,
    {
      retryable: true,
    },
  );
}

/** Derived from the UID, so that clusters rarely collide. */
export function candidate(uid: string, attempt: number): string {
  const bits = createHash("sha256").update(`${uid}/${attempt}`).digest().readUInt32BE(0) & 0x3fffff;
  // Skips the first and last address of a /24: some programs treat them as network and broadcast addresses.
  const last = ((bits & 0xff) % 254) + 1;
  return `127.${64 + (bits >>> 16)}.${(bits >>> 8) & 0xff}.${last}`;
}

async function isFree(address: string): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(cellPort, address);
    await once(server, "listening");
    server.close();
    await once(server, "close");
    return true;
  } catch {
    return false;
  }
}
