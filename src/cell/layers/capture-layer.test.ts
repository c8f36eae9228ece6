import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ContainerSpec } from "../../api/wire/cell-api.ts";
import { systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { captureLayer } from "./capture-layer.ts";

it("tells the limit of a quota from the largest size of a layer", async () => {
  const rootPath = await mkdtemp(join(tmpdir(), "ramet-layer-"));
  const container = { ...ContainerSpec.parse({ name: "main", image: "a" }), envNames: [] };
  const subject = {
    sandbox: { rootPath, writtenBytes: () => Promise.resolve(0) },
    // Stands in for a guest whose layer exceeds every limit.
    guest: {
      unlisted: () => Promise.resolve([]),
      changes: () => Promise.reject(new RametError("QuotaExceeded", "writing a layer failed")),
    },
    setting: { container },
    clock: systemClock,
  };
  try {
    await expect(captureLayer(subject, rootPath, 50)).rejects.toMatchObject({ code: "QuotaExceeded" });
    await expect(captureLayer(subject, rootPath)).rejects.toMatchObject({
      code: "CheckpointTooLarge",
      hint: expect.stringContaining("ephemeral-storage") as string,
    });
  } finally {
    await rm(rootPath, { recursive: true });
  }
});
