import { afterAll, beforeAll, expect, it } from "vitest";
import { ClientWorld } from "./client-world.ts";
import { runPython } from "./python-client.ts";

/** The clients of Sandbox0, unmodified, over a real local cluster. The programs check what they see. */
let world: ClientWorld;
let environment: Record<string, string>;

beforeAll(async () => {
  world = await ClientWorld.shared("sandbox0");
  environment = await world.sandbox0Environment();
});
afterAll(() => world.close());

it.each(["sandbox0-0.9", "sandbox0-0.10"] as const)("initializes once and claims many with %s", async (sdk) => {
  expect(await runPython("sandbox0_seed.py", { sdk, environment })).toBe("");
});
