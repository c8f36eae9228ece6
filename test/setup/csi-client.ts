import { join } from "node:path";
import { credentials, makeClientConstructor, type ServiceError, status } from "@grpc/grpc-js";
import { loadCsiServices } from "../../src/csi/protocol.ts";

/** A volume or a snapshot, as far as tests read it. */
interface Made {
  volumeId: string;
  snapshotId: string;
  capacityBytes: number;
  sizeBytes: number;
  readyToUse: boolean;
  volumeContext: Record<string, string>;
}

export interface CsiResponse {
  volume: Made;
  snapshot: Made;
  entries: { volume: Made; snapshot: Made }[];
  nextToken: string;
  capacityBytes: number;
}

export interface CsiClient {
  /** Calls a method. @throws an error whose message starts with the name of the status */
  call(method: string, request?: object): Promise<CsiResponse>;
  close(): void;
}

const services = loadCsiServices(join(import.meta.dirname, "../../proto/csi.proto"));

/** A client of the services Identity, Controller and Node of a driver. */
export function csiClient(endpoint: string): CsiClient {
  const stubs = Object.values(services).map(
    (service) =>
      new (makeClientConstructor(service, "csi"))(endpoint.replace("unix://", "unix:"), credentials.createInsecure()),
  );
  type Stub = Record<
    string,
    (request: object, done: (error: ServiceError | null, response: CsiResponse) => void) => void
  >;
  return {
    call: (method, request = {}) =>
      new Promise((resolve, reject) => {
        const stub = stubs.find((one) => method in one) as unknown as Stub;
        stub[method]?.(request, (error, response) => {
          if (error === null) resolve(response);
          else reject(new Error(`${status[error.code]}: ${error.details}`, { cause: error }));
        });
      }),
    close: () => {
      for (const stub of stubs) stub.close();
    },
  };
}

export const mountCapability = { mount: {}, accessMode: { mode: "SINGLE_NODE_WRITER" } };
