import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ClientWorld } from "./client-world.ts";
import { runPython, sandboxPrograms } from "./python-client.ts";

/** The earliest supported SDK of E2B for Python, unmodified, over a real local cluster. */
let world: ClientWorld;
let environment: Record<string, string>;

beforeAll(async () => {
  world = await ClientWorld.shared("e2b-python-earlier");
  environment = await world.environment();
});
afterAll(() => world.close());

describe("the SDK for Python (2.15)", () => {
  it.each(sandboxPrograms)("%s", async (_, file) => {
    expect(await runPython(file, { sdk: "2.15", environment })).toBe("");
  });
});
