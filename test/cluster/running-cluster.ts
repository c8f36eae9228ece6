import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { TestCluster } from "./local-cluster.ts";

/** A local cluster that runs during the tests of a file. */
export function runningCluster(): TestCluster {
  const home = join(tmpdir(), `ramet-local-${randomUUID()}`);
  const cluster = TestCluster.at(home);
  beforeAll(async () => {
    await mkdir(home, { mode: 0o700 });
    await cluster.up();
  }, 400_000);
  afterAll(() => cluster.remove());
  return cluster;
}
