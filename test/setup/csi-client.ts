import * as z from "zod";
import { systemClock } from "../../src/base/clock.ts";
import { csiClient as open } from "../../src/local/csi/client.ts";
import { loadCsiServices } from "../../src/local/csi/unary.ts";
import { csiProtoPath } from "../../src/local/volumes/local-volumes.ts";

const Volume = z.looseObject({
  volumeId: z.string(),
  capacityBytes: z.number(),
  volumeContext: z.record(z.string(), z.string()),
});
const Snapshot = z.looseObject({ snapshotId: z.string(), sizeBytes: z.number(), readyToUse: z.boolean() });

/** A client of a driver for tests. */
export function csiClient(endpoint: string) {
  const client = open({ socket: endpoint.replace("unix://", ""), services, clock: systemClock });
  return {
    ...client,
    createVolume: async (request: object) =>
      z.object({ volume: Volume }).parse(await client.call("CreateVolume", request)).volume,
    createSnapshot: async (request: object) =>
      z.object({ snapshot: Snapshot }).parse(await client.call("CreateSnapshot", request)).snapshot,
    listSnapshots: async () => {
      const Entries = z.object({ entries: z.array(z.object({ snapshot: Snapshot })) });
      return Entries.parse(await client.call("ListSnapshots")).entries.map(({ snapshot }) => snapshot);
    },
    expand: async (volumeId: string, requiredBytes: number) => {
      const request = { volumeId, capacityRange: { requiredBytes } };
      return z.object({ capacityBytes: z.number() }).parse(await client.call("ControllerExpandVolume", request))
        .capacityBytes;
    },
  };
}
export type TestCsiClient = ReturnType<typeof csiClient>;

const services = loadCsiServices(csiProtoPath());

export const mountCapability = { mount: {}, accessMode: { mode: "SINGLE_NODE_WRITER" } };
