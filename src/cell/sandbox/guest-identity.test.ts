import { createServer, type Server } from "node:http";
import { createConnection, type AddressInfo } from "node:net";
import { once } from "node:events";
import { json } from "node:stream/consumers";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Identity } from "../../api/cell/cell-api.ts";
import { GuestControl, type GuestInit } from "../client/guest-control.ts";
import { GuestIdentity } from "./guest-identity.ts";
import { untilGuestAnswers } from "./handover.ts";

/** Stands in for the guest's control port: it takes each generation that is higher than the one it has. It runs no hooks. */
class StandInGuest {
  readonly asked: string[] = [];
  generation = 0;
  /** The identity that it took last. */
  sandboxId = "";
  /** What it does with the next calls, one after the other; then it answers. */
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
  identity = new GuestIdentity();
});
afterEach(() => guest.close());

const give = (wish: Identity, clone = false): Promise<number> => identity.give(guest.control, wish, { clone });

it("gives the next generation, and asks for none that is known", async () => {
  identity.begin(0);
  expect(await give(a)).toBe(1);
  expect(await give(b)).toBe(2);
  expect(guest.asked).toEqual(["1 a", "2 b"]);
  expect([identity.generation, identity.has(b), identity.has(a)]).toEqual([2, true, false]);
  expect(identity.has({ ...b, environment: {} })).toBe(false);
});

it("asks a guest of which the generation is not known, and leaves a number for what may be on its way", async () => {
  guest.generation = 4;
  identity.begin(undefined);
  expect(await give(a, true)).toBe(6);
  expect(guest.asked).toEqual(["health", "6 a as a clone"]);
});

it("knows neither while the guest takes an identity", async () => {
  identity.begin(0);
  await give(a);
  const taking = give(b);
  expect([identity.generation, identity.has(a), identity.has(b)]).toEqual([undefined, false, false]);
  await taking;
  expect([identity.generation, identity.has(b)]).toEqual([2, true]);
});

it("repeats a call with the same generation, which the guest has taken once", async () => {
  identity.begin(3);
  guest.generation = 3;
  guest.faults.push("cut before", "cut after");
  const via = <T>(_what: string, call: () => Promise<T>) => untilGuestAnswers(call, new Promise(() => undefined));
  expect(await identity.give(guest.control, a, { clone: true, via })).toBe(4);
  expect(guest.asked).toEqual(["4 a as a clone", "4 a as a clone"]);
});

it("gives an identity again after another one of which nobody knows whether it has arrived", async () => {
  identity.begin(0);
  await give(a);
  guest.faults.push("cut after");
  await expect(give(b)).rejects.toMatchObject({ code: "GuestUnreachable" });
  expect(guest.sandboxId).toBe("b");
  expect([identity.generation, identity.has(a)]).toEqual([undefined, false]);
  expect(await give(a)).toBe(4);
  expect(guest.sandboxId).toBe("a");
});

it("says that the guest has refused", async () => {
  guest.generation = 7;
  identity.begin(0);
  await expect(give(a)).rejects.toMatchObject({ code: "HandoverFailed" });
  expect(identity.has(a)).toBe(false);
});

it("forgets what the guest before knew", async () => {
  identity.begin(0);
  await give(a);
  identity.begin(9);
  expect([identity.generation, identity.has(a)]).toEqual([9, false]);
});
