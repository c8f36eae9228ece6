import { Registry } from "prom-client";
import { expect, it } from "vitest";
import type { NamedSnapshotStatus } from "../../api/kinds/named-snapshot-status.ts";
import { snapshotMetrics } from "./metrics.ts";

const digest = `sha256:${"0".repeat(64)}`;
const step = { digest, step: "run a", state: "Succeeded", cached: false, milliseconds: 2_000 };
const build = { digest, startedAt: "2030-01-01T00:00:00Z", attempt: 1, builderUid: "u" };

it("counts each step, build and version once, however often a status is written", async () => {
  const registry = new Registry();
  const metrics = snapshotMetrics(registry);
  const adopted: NamedSnapshotStatus = {
    build,
    steps: [
      { ...step, cached: true },
      { ...step, state: "Running" },
    ],
  };
  const stepped: NamedSnapshotStatus = { build, steps: [{ ...step, cached: true }, step] };
  const built: NamedSnapshotStatus = {
    ...stepped,
    version: 1,
    latestVersion: 1,
    build: { ...build, endedAt: "2030-01-01T00:00:05Z" },
  };
  const running = { ...adopted, steps: adopted.steps!.map(({ milliseconds: _, ...rest }) => rest) };
  const statuses = [
    undefined,
    running,
    running,
    stepped,
    stepped,
    built,
    built,
    { ...built, version: 2, latestVersion: 2 },
    { ...built, latestVersion: 2 },
  ];
  for (const [index, after] of statuses.entries())
    if (after !== undefined) metrics.statusChanged(statuses[index - 1], after);
  const text = await registry.metrics();
  expect(text).toContain('ramet_snapshot_build_seconds_sum{result="built"} 5');
  expect(text).toContain('ramet_snapshot_build_seconds_count{result="built"} 1');
  expect(text).toContain('ramet_snapshot_step_seconds_count{result="Succeeded"} 1');
  expect(text).toContain("ramet_snapshot_cached_steps_total 1");
  expect(text).toContain('ramet_snapshot_versions_served_total{why="built"} 2');
  expect(text).toContain('ramet_snapshot_versions_served_total{why="kept"} 1');
  metrics.close();
  expect(await registry.metrics()).toBe("\n");
});
