import { type ServiceDefinition, type handleUnaryCall, status } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type * as z from "zod";
import type { ErrorCode } from "../../base/error-codes.ts";
import { RametError, errnoOf } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";

/** Handles one call: the request is parsed, and what is returned becomes the response. */
export type Method = (request: unknown) => Promise<object>;

/** @param handle may throw a RametError, whose code decides the status */
export function method<Schema extends z.ZodType>(
  schema: Schema,
  handle: (request: z.output<Schema>) => Promise<object> | object,
): Method {
  return async (request) => {
    const { success, data, error } = schema.safeParse(request);
    if (!success) throw new RametError("InvalidArgument", `The request is not valid: ${problemOf(error)}`);
    return await handle(data);
  };
}

/** Serves a method, and logs each call without its content. */
export function grpcHandler(name: string, handle: Method, log: Log): handleUnaryCall<unknown, object> {
  return (call, done) => {
    handle(call.request).then(
      (response) => {
        log.debug({ method: name }, "answered");
        done(null, response);
      },
      (thrown: unknown) => {
        const error = withoutSpace(thrown) ?? RametError.from(thrown, `${name} failed`);
        const code = statuses[error.code] ?? status.INTERNAL;
        const fields = { method: name, status: status[code], error: error.message };
        if (code === status.INTERNAL) log.error({ ...fields, err: thrown }, "failed");
        else log.info(fields, "refused");
        const text = error.hint === undefined ? error.message : `${error.message}. ${error.hint}`;
        done({ code, details: text.slice(0, longestDetails) });
      },
    );
  };
}

/** Trailers are limited to some KiB. */
const longestDetails = 1_000;

const statuses: Partial<Record<ErrorCode, status>> = {
  InvalidArgument: status.INVALID_ARGUMENT,
  NotFound: status.NOT_FOUND,
  AlreadyExists: status.ALREADY_EXISTS,
  Conflict: status.ABORTED,
  OutOfRange: status.OUT_OF_RANGE,
  VolumesFull: status.RESOURCE_EXHAUSTED,
  HostUnsupported: status.FAILED_PRECONDITION,
  VolumeNotShareable: status.FAILED_PRECONDITION,
  Timeout: status.DEADLINE_EXCEEDED,
  Unavailable: status.UNAVAILABLE,
  Canceled: status.UNAVAILABLE,
};

function problemOf(error: z.ZodError): string {
  return error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ");
}

function withoutSpace(error: unknown): RametError | undefined {
  if (!["ENOSPC", "EDQUOT"].includes(errnoOf(error) ?? "")) return undefined;
  return new RametError("VolumesFull", "The request failed: the file system of the volumes has no space left", {
    cause: error,
    hint: "Delete volumes and snapshots that you do not need",
  });
}

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
