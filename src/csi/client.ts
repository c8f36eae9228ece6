import { credentials, makeClientConstructor, type ServiceError, status } from "@grpc/grpc-js";
import type { ErrorCode } from "../base/error-codes.ts";
import { RametError } from "../base/errors.ts";
import type { CsiServices } from "./protocol.ts";

/** A client of a driver's services. */
export interface CsiClient {
  /** Calls a method, such as `CreateVolume`. @throws RametError whose message has the name of the status */
  call(method: string, request?: object): Promise<unknown>;
  close(): void;
}

/** @param socket the path of the driver's Unix socket; it is opened with the first call */
export function csiClient(socket: string, services: CsiServices): CsiClient {
  const stubs = Object.values(services).map(
    (service) => new (makeClientConstructor(service, "csi"))(`unix:${socket}`, credentials.createInsecure()),
  );
  return {
    call: (method, request = {}) =>
      new Promise((resolve, reject) => {
        const stub = stubs.find((one) => method in one) as unknown as Stub | undefined;
        if (stub === undefined) throw new RametError("Internal", `The driver has no method ${method}`);
        stub[method]?.(request, (error, response) => {
          if (error === null) resolve(response);
          else reject(errorOf(method, error));
        });
      }),
    close: () => {
      for (const stub of stubs) stub.close();
    },
  };
}

type Stub = Record<string, (request: object, done: (error: ServiceError | null, response: unknown) => void) => void>;

function errorOf(method: string, error: ServiceError): RametError {
  const [code, retryable] = codes[error.code] ?? ["Internal", false];
  const message = `${method} failed (${status[error.code]}): ${error.details}`;
  return new RametError(code, message, { retryable, cause: error });
}

const codes: Partial<Record<status, [ErrorCode, retryable: boolean]>> = {
  [status.INVALID_ARGUMENT]: ["InvalidArgument", false],
  [status.NOT_FOUND]: ["NotFound", false],
  [status.ALREADY_EXISTS]: ["AlreadyExists", false],
  [status.ABORTED]: ["Conflict", true],
  [status.OUT_OF_RANGE]: ["OutOfRange", false],
  [status.RESOURCE_EXHAUSTED]: ["VolumesFull", true],
  [status.FAILED_PRECONDITION]: ["HostUnsupported", false],
  [status.DEADLINE_EXCEEDED]: ["Timeout", true],
  [status.UNAVAILABLE]: ["Unavailable", true],
};
