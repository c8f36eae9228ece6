import type { ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { RametError } from "../base/errors.ts";

export type CsiServices = Record<"Identity" | "Controller" | "Node", ServiceDefinition>;

/** Reads the services from CSI's own definition, `csi.proto`. */
export function loadCsiServices(protoPath: string): CsiServices {
  const found = loadSync(protoPath, { keepCase: false, longs: Number, enums: String, defaults: true, oneofs: true });
  const service = (name: keyof CsiServices): ServiceDefinition => {
    const definition = found[`csi.v1.${name}`];
    if (definition === undefined || "format" in definition)
      throw new RametError("Internal", `${protoPath} does not define the service ${name}`);
    return definition;
  };
  return { Identity: service("Identity"), Controller: service("Controller"), Node: service("Node") };
}
