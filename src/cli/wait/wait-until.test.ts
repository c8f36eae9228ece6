import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../../test/contract/kube/eventually.ts";
import { StandInServer } from "../../../test/contract/kube/stand-in-server.ts";
import { systemClock } from "../../kube/clock.ts";
import { explicitConnection } from "../../kube/connection.ts";
import { KubeClient } from "../../kube/kube-client.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { waitUntil } from "./wait-until.ts";

/** Pauses are short; how long a watch may be silent stays. */
const hasty = {
  ...systemClock,
  schedule: (milliseconds: number, run: () => void) =>
    systemClock.schedule(milliseconds < 60_000 ? 1 : milliseconds, run),
};

describe("waitUntil", () => {
  const server = new StandInServer(coreResources.configMaps);
  let requests = 0;
  let client: KubeClient;

  beforeEach(async () => {
    await server.start();
    client = new KubeClient(explicitConnection({ server: server.url }), { clock: hasty, onRequest: () => requests++ });
  });
  afterEach(async () => {
    await client.close();
    await server.stop();
  });

  it("goes on after an outage that is longer than a request waits", async () => {
    const from = server.put("a");
    const waiting = waitUntil({
      resource: client.resource(coreResources.configMaps),
      from,
      until: (object) => object !== undefined && "data" in object,
      timeoutMilliseconds: Infinity,
      signal: new AbortController().signal,
    });
    await eventually(() => server.watchers).toBe(1);
    await server.stop();
    const before = requests;
    await eventually(() => requests - before).toBeGreaterThan(20);
    await server.start();
    server.put("a", { data: { x: "1" } });
    expect(await waiting).toMatchObject({ data: { x: "1" } });
  });

  it("ends at once with what waiting cannot mend", async () => {
    const from = server.put("b");
    server.refuse({ times: 1, httpStatus: 403, message: "not for you" });
    const waiting = waitUntil({
      resource: client.resource(coreResources.configMaps),
      from,
      until: () => false,
      timeoutMilliseconds: Infinity,
      signal: new AbortController().signal,
    });
    await expect(waiting).rejects.toMatchObject({ code: "Forbidden" });
  });
});
