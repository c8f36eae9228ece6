import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../test/contract/kube/eventually.ts";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { StandInServer } from "../../test/contract/kube/stand-in-server.ts";
import type { RametError } from "../base/errors.ts";
import { explicitConnection } from "./connection.ts";
import { KubeClient } from "./kube-client.ts";
import { microTime, runWhileLeading } from "./lease.ts";
import { coreResources } from "./resource-ref.ts";

let server: StandInServer;
let candidates: Candidate[];

beforeEach(async () => {
  server = new StandInServer(coreResources.leases);
  await server.start();
  candidates = [];
});

afterEach(async () => {
  for (const candidate of candidates) await candidate.stop();
  await server.stop();
});

/** Each candidate has its own clock, because leader election must not depend on synchronized clocks. */
class Candidate {
  readonly clock = new ManualClock();
  readonly log: string[] = [];
  /** The writes whose responses have arrived. */
  writes = 0;
  readonly #stop = new AbortController();
  readonly #client = new KubeClient(explicitConnection({ server: server.url }), {
    clock: this.clock,
    random: () => 0,
    requestTimeoutMilliseconds: 60_000,
    onRequest: ({ verb }) => (this.writes += Number(verb !== "get")),
  });
  readonly #run: Promise<void>;

  constructor(identity: string) {
    this.#run = runWhileLeading(
      {
        client: this.#client,
        namespace: "default",
        name: "ramet",
        identity,
        onLost: (error) => this.log.push(`lost: ${error.message}`),
      },
      async (signal) => {
        this.log.push("leads");
        const ended = Promise.withResolvers<undefined>();
        signal.addEventListener("abort", () => {
          ended.resolve(undefined);
        });
        await ended.promise;
        this.log.push("ended");
      },
      this.#stop.signal,
    ).catch((error: unknown) => {
      this.log.push((error as RametError).code);
    });
    candidates.push(this);
  }

  /** Waits until it sleeps between two attempts, then advances its clock. */
  async pass(milliseconds: number): Promise<void> {
    // An attempt has a longer time limit.
    await eventually(() => (this.clock.waits[0] ?? Infinity) <= 1_000).toBe(true);
    this.clock.advance(milliseconds);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#run;
    await this.#client.close();
  }
}

function lease() {
  return server.get("ramet")?.["spec"] as {
    holderIdentity: string;
    leaseDurationSeconds: number;
    leaseTransitions: number;
    renewTime: string;
  };
}

describe("runWhileLeading", () => {
  it("leads when the lease is free, renews it, and releases it at the end", async () => {
    const a = new Candidate("a");
    await eventually(() => a.log).toEqual(["leads"]);
    // More than the deadline of renewals, and 1.5 s in which a process stops leading.
    expect(lease().leaseDurationSeconds).toBe(8);
    const first = lease().renewTime;
    await a.pass(1_000);
    await eventually(() => lease().renewTime).not.toBe(first);
    expect(lease().holderIdentity).toBe("a");
    await a.stop();
    expect(a.log).toEqual(["leads", "ended"]);
    expect(lease().holderIdentity).toBe("");
  });

  it("does not lead while the holder renews, and leads as soon as the holder has released the lease", async () => {
    const a = new Candidate("a");
    await eventually(() => a.log).toEqual(["leads"]);
    const b = new Candidate("b");
    for (let round = 0; round < 10; round++) {
      const before = { renewTime: lease().renewTime, writes: a.writes };
      await a.pass(1_000);
      // The server has the renewal before its response arrives. Until then, the clock would run towards the deadline.
      await eventually(() => a.writes).toBe(before.writes + 1);
      expect(lease().renewTime).not.toBe(before.renewTime);
      await b.pass(1_000);
    }
    expect(b.log).toEqual([]);
    await a.stop();
    await b.pass(1_000);
    await eventually(() => b.log).toEqual(["leads"]);
    expect(lease()).toMatchObject({ holderIdentity: "b", leaseTransitions: 1 });
  });

  it("takes over from a stopped holder exactly after the lease duration on its own clock", async () => {
    server.put("ramet", { spec: { holderIdentity: "stopped", leaseDurationSeconds: 2.2, leaseTransitions: 3 } });
    const b = new Candidate("b");
    for (let attempts = 1; attempts <= 4; attempts++) await b.pass(500);
    await eventually(() => server.count("get")).toBe(5);
    expect(b.log).toEqual([]);
    await b.pass(200);
    await eventually(() => b.log).toEqual(["leads"]);
    expect(lease()).toMatchObject({ holderIdentity: "b", leaseTransitions: 4 });
  });

  it("stops immediately when another holder has the lease", async () => {
    const a = new Candidate("a");
    await eventually(() => a.log).toEqual(["leads"]);
    server.put("ramet", { spec: { ...lease(), holderIdentity: "thief" } });
    await a.pass(1_000);
    await eventually(() => a.log).toEqual([
      "leads",
      "lost: The lease default/ramet was lost: thief holds it now",
      "ended",
      "Unavailable",
    ]);
    expect(lease().holderIdentity).toBe("thief");
  });

  it("stops only when the renew deadline has passed", async () => {
    const a = new Candidate("a");
    await eventually(() => a.log).toEqual(["leads"]);
    server.refuse({ times: Infinity, httpStatus: 503 });
    while (a.clock.monotonicMilliseconds() < 5_900) {
      await a.pass(100);
      expect(a.log).toEqual(["leads"]);
    }
    await a.pass(100);
    await eventually(() => a.log).toContain("Unavailable");
    expect(a.log[1]).toMatch(/^lost: The lease default\/ramet was lost/);
  });

  it("repeats a renewal that gets no response", async () => {
    const a = new Candidate("a");
    await eventually(() => a.log).toEqual(["leads"]);
    const before = lease().renewTime;
    server.refuse({ times: 1, httpStatus: 0 });
    await a.pass(1_000);
    await eventually(() => server.count("put")).toBe(1);
    a.clock.advance(2_000);
    await a.pass(200);
    await eventually(() => lease().renewTime).not.toBe(before);
    expect(a.log).toEqual(["leads"]);
  });

  it("continues after a short outage", async () => {
    const a = new Candidate("a");
    await eventually(() => a.log).toEqual(["leads"]);
    const before = lease().renewTime;
    server.refuse({ times: 1, httpStatus: 503 });
    await a.pass(1_000);
    await eventually(() => a.clock.waits).toContain(200);
    a.clock.advance(200);
    await eventually(() => lease().renewTime).not.toBe(before);
    expect(a.log).toEqual(["leads"]);
  });
});

describe("microTime", () => {
  it("has microseconds, which the API server requires", () => {
    expect(microTime(new Date("2026-01-02T03:04:05.678Z"))).toBe("2026-01-02T03:04:05.678000Z");
  });
});
