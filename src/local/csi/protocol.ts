import type { ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { RametError } from "../../base/errors.ts";

export type CsiServices = Record<"Identity" | "Controller" | "GroupController" | "Node", ServiceDefinition>;

/** Reads the services from CSI's own definition, `csi.proto`. */
export function loadCsiServices(protoPath: string): CsiServices {
  const service = loadServices(protoPath);
  return {
    Identity: service("csi.v1.Identity"),
    Controller: service("csi.v1.Controller"),
    GroupController: service("csi.v1.GroupController"),
    Node: service("csi.v1.Node"),
  };
}

/** Reads the service with which a kubelet registers plugins, from the kubelet's own definition, `pluginregistration.proto`. */
export function loadRegistrationService(protoPath: string): ServiceDefinition {
  return loadServices(protoPath)("pluginregistration.Registration");
}

function loadServices(protoPath: string): (name: string) => ServiceDefinition {
  const found = loadSync(protoPath, { keepCase: false, longs: Number, enums: String, defaults: true, oneofs: true });
  return (name) => {
    const definition = found[name];
    if (definition === undefined || "format" in definition)
      throw new RametError("Internal", `${protoPath} does not define the service ${name}`);
    return definition;
  };
}

/** The name of Ramet's driver for volumes of one machine, in StorageClasses, VolumeSnapshotClasses and PersistentVolumes. */
export const driverName = "local.csi.ramet.dev";
