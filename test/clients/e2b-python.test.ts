import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ClientWorld } from "./client-world.ts";
import { runPython } from "./python-client.ts";

/** The SDKs of E2B for Python, unmodified, over a real local cluster. The programs check what they see. */
let world: ClientWorld;
let environment: Record<string, string>;

beforeAll(async () => {
  world = await ClientWorld.shared("e2b-python");
  environment = await world.environment();
});
afterAll(() => world.close());

describe.each(["current", "2.15"] as const)("the SDK for Python (%s)", (sdk) => {
  it.each([
    ["runs commands, serves files, and finds and deletes sandboxes", "sandbox.py"],
    ["pauses and resumes a sandbox with its processes", "pause.py"],
    ["creates sandboxes from a snapshot with its memory", "snapshot.py"],
    ["uses several sandboxes concurrently", "async_sandboxes.py"],
  ])("%s", async (_, file) => {
    expect(await runPython(file, { sdk, environment })).toBe("");
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
