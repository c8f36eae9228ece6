import { once } from "node:events";
import { type Server, createServer } from "node:http";
import { type AddressInfo, createConnection } from "node:net";
import { json } from "node:stream/consumers";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Identity } from "../../api/wire/cell-api.ts";
import { systemClock } from "../../base/clock.ts";
import { GuestControl, type GuestInit } from "../client/guest-control.ts";
import { GuestIdentity, untilGuestAnswers } from "./handover.ts";

/** A stand-in for the guest's control port. It accepts each generation higher than its own, and runs no hooks. */
class StandInGuest {
  readonly asked: string[] = [];
  generation = 0;
  /** The last identity that it accepted. */
  sandboxId = "";
  /** The faults of the next calls, in order. Later calls succeed. */
  readonly faults: ("cut before" | "cut after")[] = [];
  readonly #server: Server;
  readonly control: GuestControl;

  private constructor() {
    this.#server = createServer((request, response) => {
      void json(request)
        .catch(() => undefined)
        .then((body) => {
          const fault = this.faults.shift();
          const answer = fault === "cut before" ? undefined : this.#answer(request.url ?? "", body as GuestInit);
          if (fault === undefined && answer !== undefined) response.writeHead(answer.status).end(answer.text);
          else request.socket.destroy();
        });
    });
    this.control = new GuestControl(async () => {
      const connection = createConnection((this.#server.address() as AddressInfo).port, "127.0.0.1");
      await once(connection, "connect");
      return connection;
    });
  }

  static async open(): Promise<StandInGuest> {
    const guest = new StandInGuest();
    await once(guest.#server.listen(0, "127.0.0.1"), "listening");
    return guest;
  }

  async close(): Promise<void> {
    this.#server.close();
    await once(this.#server, "close");
  }

  #answer(path: string, body: GuestInit): { status: number; text: string } {
    if (path === "/health") {
      this.asked.push("health");
      return {
        status: 200,
        text: JSON.stringify({ pid: 1, generation: this.generation, entrypoint: { state: "none" } }),
      };
    }
    const { generation, sandboxId, clone } = body;
    this.asked.push(`${generation} ${sandboxId}${clone ? " as a clone" : ""}`);
    const isRepeat = generation === this.generation && sandboxId === this.sandboxId;
    if (generation <= this.generation && !isRepeat) return { status: 409, text: JSON.stringify({ code: "Conflict" }) };
    this.generation = generation;
    this.sandboxId = sandboxId;
    return { status: 200, text: JSON.stringify({ hooks: [] }) };
  }
}

const identityOf = (sandboxId: string): Identity => {
  return { sandboxId, hostname: sandboxId, accessToken: "a token", environment: { NAME: sandboxId } };
};
const a = identityOf("a");
const b = identityOf("b");

let guest: StandInGuest;
let identity: GuestIdentity;

beforeEach(async () => {
  guest = await StandInGuest.open();
  identity = new GuestIdentity(systemClock, { cpuMillis: 1000, memoryBytes: 2 ** 30 });
});
afterEach(() => guest.close());

const give = (next: Identity, clone = false): Promise<number> => identity.give(guest.control, next, { clone });

it("gives the next generation without asking for a known one", async () => {
  identity.reset(0);
  expect(await give(a)).toBe(1);
  expect(await give(b)).toBe(2);
  expect(guest.asked).toEqual(["1 a", "2 b"]);
  expect([identity.generation, identity.has(b), identity.has(a)]).toEqual([2, true, false]);
  expect(identity.has({ ...b, environment: {} })).toBe(false);
});

it("asks the guest for an unknown generation, and skips one for an identity in transit", async () => {
  guest.generation = 4;
  identity.reset(undefined);
  expect(await give(a, true)).toBe(6);
  expect(guest.asked).toEqual(["health", "6 a as a clone"]);
});

it("knows neither identity nor generation while the guest is getting one", async () => {
  identity.reset(0);
  await give(a);
  const taking = give(b);
  expect([identity.generation, identity.has(a), identity.has(b)]).toEqual([undefined, false, false]);
  await taking;
  expect([identity.generation, identity.has(b)]).toEqual([2, true]);
});

it("repeats a call with the same generation, which the guest applies once", async () => {
  identity.reset(3);
  guest.generation = 3;
  guest.faults.push("cut before", "cut after");
  const via = <T>(_what: string, call: () => Promise<T>) =>
    untilGuestAnswers(call, { ended: new Promise(() => undefined), clock: systemClock });
  expect(await identity.give(guest.control, a, { clone: true, via })).toBe(4);
  expect(guest.asked).toEqual(["4 a as a clone", "4 a as a clone"]);
});

it("gives an identity again after one that may not have arrived", async () => {
  identity.reset(0);
  await give(a);
  guest.faults.push("cut after");
  await expect(give(b)).rejects.toMatchObject({ code: "GuestUnreachable" });
  expect(guest.sandboxId).toBe("b");
  expect([identity.generation, identity.has(a)]).toEqual([undefined, false]);
  expect(await give(a)).toBe(4);
  expect(guest.sandboxId).toBe("a");
});

it("fails if the guest rejects the identity", async () => {
  guest.generation = 7;
  identity.reset(0);
  await expect(give(a)).rejects.toMatchObject({ code: "HandoverFailed" });
  expect(identity.has(a)).toBe(false);
});

it("forgets the identity of the previous guest", async () => {
  identity.reset(0);
  await give(a);
  identity.reset(9);
  expect([identity.generation, identity.has(a)]).toEqual([9, false]);
});
