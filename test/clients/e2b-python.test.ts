import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ClientWorld } from "./client-world.ts";
import { runPython, sandboxPrograms } from "./python-client.ts";

/** The SDKs of E2B for Python, unmodified, over a real local cluster. The programs check what they see. */
let world: ClientWorld;
let environment: Record<string, string>;

beforeAll(async () => {
  world = await ClientWorld.shared("e2b-python");
  environment = await world.environment();
});
afterAll(() => world.close());

describe("the SDK for Python (current)", () => {
  it.each(sandboxPrograms)("%s", async (_, file) => {
    expect(await runPython(file, { environment })).toBe("");
  });
});

describe("the current SDK for Python", () => {
  it.each([
    ["builds templates", "template.py"],
    ["builds templates asynchronously", "async_template.py"],
  ])("%s", async (_, file) => {
    expect(await runPython(file, { environment, seconds: 200 })).toBe("");
  });

  it("forks a sandbox, and moves a snapshot with a name", async () => {
    expect(await runPython("fork.py", { environment })).toBe("");
  });
});
