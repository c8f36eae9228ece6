import { afterAll, beforeAll, expect, it } from "vitest";
import { ClientWorld } from "./client-world.ts";
import { runPython } from "./python-client.ts";

/** The client of AgentTier for Python, unmodified, over a real local cluster. The programs check what they see. */
let world: ClientWorld;
let environment: Record<string, string>;

beforeAll(async () => {
  world = await ClientWorld.shared("agenttier");
  environment = await world.agentTierEnvironment();
});
afterAll(() => world.close());

it.each([
  ["creates, finds, clones and deletes sandboxes, and runs commands", "agenttier_sandbox.py"],
  ["transfers files, forwards ports, runs an agent and lists templates", "agenttier_files.py"],
  ["stops, resumes and clones sandboxes asynchronously", "agenttier_async.py"],
])("%s", async (_, file) => {
  expect(await runPython(file, { sdk: "agenttier", environment })).toBe("");
});
