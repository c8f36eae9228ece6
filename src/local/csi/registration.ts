import { join } from "node:path";
import * as z from "zod";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { driverName, loadRegistrationService } from "./protocol.ts";
import { requests } from "./requests.ts";
import { serveGrpc } from "./serve.ts";
import { method } from "./unary.ts";

export interface KubeletRegistration {
  /** The root directory of the kubelet, for instance /var/lib/kubelet. */
  directory: string;
  /** The path of the kubelet's definition, `pluginregistration.proto`. */
  protoPath: string;
}

export interface RegistrationOptions {
  /** The path of the driver's socket, which is the same for the kubelet. */
  endpoint: string;
  clock: Clock;
  log: Log;
}

/**
 * Makes the driver known to a kubelet of this machine, as node-driver-registrar does: by a socket in its directory
 * `plugins_registry`, which the kubelet watches. The kubelet then asks the driver for its node, and writes a CSINode. It registers
 * the driver again when it restarts.
 * @returns a function that removes the socket, and so the driver from the node
 */
export function registerWithKubelet(
  { directory, protoPath }: KubeletRegistration,
  { endpoint, clock, log }: RegistrationOptions,
): Promise<() => Promise<void>> {
  const methods = {
    // The versions are those of CSI: the kubelet accepts those that begin with 1 (pkg/volume/csi/csi_plugin.go).
    GetInfo: method(requests.empty, () => ({
      type: "CSIPlugin",
      name: driverName,
      endpoint,
      supportedVersions: ["1.0.0"],
    })),
    NotifyRegistrationStatus: method(Status, ({ pluginRegistered, error }) => {
      if (pluginRegistered) log.info({ directory }, "the kubelet has registered the driver");
      else log.error({ directory, error }, "the kubelet did not register the driver");
      return {};
    }),
  };
  const socket = join(directory, "plugins_registry", `${driverName}-reg.sock`);
  const services = [{ definition: loadRegistrationService(protoPath), methods }];
  return serveGrpc({ socket, services, clock, log });
}

const Status = z.object({ pluginRegistered: z.boolean(), error: z.string() });
