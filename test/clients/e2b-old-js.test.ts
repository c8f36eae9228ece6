import { Sandbox } from "e2b-2-6";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ClientWorld } from "./client-world.ts";

/** An early JavaScript SDK. It reaches sandboxes by host name only, so this tests its calls of the API. */
let world: ClientWorld;
let options: { apiKey: string; apiUrl: string };

beforeAll(async () => {
  world = await ClientWorld.shared("e2b-old-js");
  options = await world.connection();
});
afterAll(() => world.close());

it("creates, pauses, resumes and deletes sandboxes", async () => {
  const sandbox = await Sandbox.create("base", options);
  const { sandboxId } = sandbox;
  expect(await Sandbox.getInfo(sandboxId, options)).toMatchObject({ state: "running" });
  expect(await Sandbox.betaPause(sandboxId, options)).toBe(true);
  const paused = await Sandbox.list({ ...options, query: { state: ["paused"] } }).nextItems();
  expect(paused.map((each) => each.sandboxId)).toEqual([sandboxId]);
  expect((await Sandbox.connect(sandboxId, options)).sandboxId).toBe(sandboxId);
  expect(await Sandbox.getInfo(sandboxId, options)).toMatchObject({ state: "running" });
  expect(await Sandbox.kill(sandboxId, options)).toBe(true);
});
