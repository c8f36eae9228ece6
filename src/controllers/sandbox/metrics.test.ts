import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { disruptionMetrics } from "./metrics.ts";

it("counts disruptions by cause and outcome, and measures how long the sandboxes that continue were away", async () => {
  const registry = new Registry();
  const { ended } = disruptionMetrics(registry);
  const [cause, at, endedAt] = ["NodeCordoned", "2030-01-01T00:00:00.000Z", "2030-01-01T00:00:02.500Z"];
  ended({ cause, outcome: "Migrated", at, endedAt });
  ended({ cause, outcome: "Migrated", at, endedAt, savedAt: "2030-01-01T00:00:02.000Z" });
  ended({ cause, outcome: "Lost", at });
  const text = await registry.metrics();
  expect(text).toContain('ramet_sandbox_disruptions_total{cause="NodeCordoned",outcome="Migrated"} 2');
  expect(text).toContain('ramet_sandbox_disruptions_total{cause="NodeCordoned",outcome="Lost"} 1');
  expect(text).toContain('ramet_sandbox_disruption_seconds_sum{cause="NodeCordoned",outcome="Migrated"} 5');
  expect(text).toContain('ramet_sandbox_downtime_seconds_sum{cause="NodeCordoned"} 0.5');
  expect(text).not.toContain('ramet_sandbox_disruption_seconds_sum{cause="NodeCordoned",outcome="Lost"}');
});
