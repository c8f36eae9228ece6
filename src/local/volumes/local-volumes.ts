import { stat } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, onAbort, untilAborted } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { within } from "../../base/within.ts";
import type { CsiClient } from "../csi/client.ts";
import { driverName } from "../csi/unary.ts";
import { dataPath, isId } from "../csi/storage/records.ts";
import type { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { Claim, Volume } from "../../kube/volumes/volumes.ts";
import { VolumeController } from "./volume-controller.ts";
import { packageRoot } from "../tools/tool.ts";

export interface LocalVolumesOptions {
  client: KubeClient;
  claims: Informer<Claim>;
  /** The socket of this machine's CSI driver, which may start later. */
  socket: string;
  /** Where the driver has its volumes. */
  directory: string;
  log: Log;
}

/** The volumes of a local cluster's claims: provisions them with the CSI driver, and knows where their data is. */
export class LocalVolumes {
  readonly #options: LocalVolumesOptions;
  readonly #controller: VolumeController;
  readonly #stopping = new AbortController();

  constructor(options: LocalVolumesOptions) {
    const { client, claims, socket, log } = options;
    this.#options = options;
    const driver = lazyDriver(socket, client.clock, this.#stopping.signal);
    this.#controller = new VolumeController({ client, claims, driver, log });
  }

  /** Runs until `signal` aborts, which also cancels calls of the driver. */
  async run(signal: AbortSignal): Promise<void> {
    onAbort(signal, () => {
      this.#stopping.abort();
    });
    await this.#controller.run(signal);
  }

  /**
   * The directory of a claim's data on this machine. A claim that is not bound is provisioned now.
   * @throws RametError
   */
  async directoryOf(claim: Claim): Promise<string> {
    const { metadata, spec } = await this.#volumeOf(claim);
    const what = `Mounting the PersistentVolume ${metadata.name} failed`;
    if (spec.csi?.driver !== driverName)
      throw new RametError("NotSupported", `${what}: the local node mounts only volumes of the driver ${driverName}`);
    const { volumeHandle: id } = spec.csi;
    const path = isId("volume", id) ? dataPath(this.#options.directory, "volume", id) : undefined;
    const found = path === undefined ? undefined : await stat(path).catch(() => undefined);
    if (path !== undefined && found?.isDirectory() === true) return path;
    throw new RametError("NotFound", `${what}: its data does not exist`);
  }

  /** Does not wait for a long copy, because the caller cannot be stopped meanwhile. The copy continues. */
  async #volumeOf(claim: Claim): Promise<Volume> {
    const { clock } = this.#options.client;
    const what = `Provisioning the PersistentVolumeClaim ${claim.metadata.name}`;
    return within({ clock, milliseconds: patienceMilliseconds, what, retryable: true }, async (signal) => {
      const volume = await Promise.race([this.#controller.volumeOf(claim), untilAborted(signal)]);
      if (volume !== undefined) return volume;
      throw new RametError("Timeout", `${what} is not done yet`, { retryable: true });
    });
  }
}

const patienceMilliseconds = 10_000;

/** Loads gRPC with the first call, because few clusters have claims. */
function lazyDriver(socket: string, clock: Clock, signal: AbortSignal): Pick<CsiClient, "call"> {
  let opening: Promise<CsiClient> | undefined;
  const open = async (): Promise<CsiClient> => {
    const [{ csiClient }, { loadCsiServices }] = await Promise.all([
      import("../csi/client.ts"),
      import("../csi/unary.ts"),
    ]);
    const client = csiClient({ socket, services: loadCsiServices(csiProtoPath()), clock, signal });
    void untilAborted(signal).then(() => {
      client.close();
    });
    return client;
  };
  return {
    call: async (method, request) => {
      opening ??= open();
      return (await opening).call(method, request);
    },
  };
}

/** The path of CSI's definition in this package. */
export function csiProtoPath(): string {
  return join(packageRoot(), "proto", "csi.proto");
}

/** The path of the kubelet's definition of its registration of plugins in this package. */
export function registrationProtoPath(): string {
  return join(packageRoot(), "proto", "pluginregistration.proto");
}
