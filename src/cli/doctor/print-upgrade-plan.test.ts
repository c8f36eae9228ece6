import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { memoryIo } from "../../../test/setup/memory-io.ts";
import { missingImage, summary } from "./print-upgrade-plan.ts";

async function answering(status: number, ask: (host: string) => Promise<void>): Promise<void> {
  const registry = createServer((_, response) => response.writeHead(status).end()).listen(0, "127.0.0.1");
  await once(registry, "listening");
  try {
    await ask(`127.0.0.1:${(registry.address() as AddressInfo).port}`);
  } finally {
    registry.close();
  }
}

it("summarizes checkpoints that are treated alike, and nothing else", () => {
  const step = (kind: "Checkpoint" | "Sandbox", name: string, namespace = "t") => {
    return { kind, namespace, name, engine: "e", what: "keeps its engine" };
  };
  const steps = [step("Sandbox", "a"), step("Sandbox", "b"), step("Checkpoint", "c"), step("Checkpoint", "d")];
  expect(summary([...steps, step("Checkpoint", "e", "u")]).map(({ name }) => name)).toEqual([
    "a",
    "b",
    "2 checkpoints",
    "e",
  ]);
});

it("plans no upgrade to a cell image that its registry does not have without saying so", () =>
  answering(404, async (host) => {
    const io = memoryIo();
    const name = `${host}/ramet-cell:2`;
    expect(await missingImage(io, name)).toEqual([
      {
        kind: "CellImage",
        name,
        what: expect.stringContaining("does not exist: new sandboxes would not start") as string,
      },
    ]);
    expect(io.written("stderr")).toBe("");
  }));

it("reports a registry that this machine cannot read apart from the plan, as nodes may", () =>
  answering(500, async (host) => {
    const io = memoryIo();
    expect(await missingImage(io, `${host}/ramet-cell:2`)).toEqual([]);
    expect(io.written("stderr")).toContain(`Whether nodes can pull ${host}/ramet-cell:2 is unknown`);
  }));
