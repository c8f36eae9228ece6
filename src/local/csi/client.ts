import {
  type CallOptions,
  credentials,
  makeClientConstructor,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { type Clock, onAbort } from "../../base/clock.ts";
import type { ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import type { CsiServices } from "./unary.ts";

/** A client of a driver's services. */
export type CsiClient = ReturnType<typeof csiClient>;

export interface CsiClientOptions {
  /** The path of the driver's Unix socket; it is opened with the first call. */
  socket: string;
  services: CsiServices;
  clock: Clock;
  /** Cancels the calls that run. */
  signal?: AbortSignal | undefined;
}

/** A driver on this machine is back soon, or restarts immediately. */
const reconnection = { "grpc.initial_reconnect_backoff_ms": 50, "grpc.max_reconnect_backoff_ms": 1_000 };
/** A copy may take long. The driver continues it, and refuses repeated requests until it has ended. */
const callMilliseconds = 600_000;

export function csiClient({ socket, services, clock, signal }: CsiClientOptions) {
  const stubs = Object.values(services).map(
    (service) =>
      new (makeClientConstructor(service, "csi"))(`unix:${socket}`, credentials.createInsecure(), reconnection),
  );
  return {
    /**
     * Calls a method, such as `CreateVolume`. Waits for a driver that is starting.
     * @throws RametError whose message has the name of the status
     */
    call: (method: string, request: object = {}) =>
      new Promise<unknown>((resolve, reject) => {
        const stub = stubs.find((one) => method in one) as unknown as Stub | undefined;
        const send = stub?.[method]?.bind(stub);
        if (send === undefined) throw new RametError("Internal", `The driver has no method ${method}`);
        const deadline = new Date(clock.now().getTime() + callMilliseconds);
        const running = send(request, new Metadata({ waitForReady: true }), { deadline }, (error, response) => {
          stop?.();
          if (error === null) resolve(response);
          else reject(errorOf(method, error));
        });
        const stop =
          signal &&
          onAbort(signal, () => {
            running.cancel();
          });
      }),
    close: () => {
      for (const stub of stubs) stub.close();
    },
  };
}

type Done = (error: ServiceError | null, response: unknown) => void;
type Stub = Record<
  string,
  (request: object, metadata: Metadata, options: CallOptions, done: Done) => { cancel(): void }
>;

function errorOf(method: string, error: ServiceError): RametError {
  const [code, retryable] = codes[error.code] ?? ["Internal", false];
  const message = `${method} failed (${status[error.code]}): ${error.details}`;
  return new RametError(code, message, { retryable, cause: error });
}

const codes: Partial<Record<status, [ErrorCode, retryable: boolean]>> = {
  [status.CANCELLED]: ["Canceled", true],
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
