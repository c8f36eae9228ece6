import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { guardrails } from "./guardrails.ts";

it("describes all settings, with the pack's values as defaults", () => {
  const policies = guardrails({ settings: { "ramet-bounded-replicas": { maxReplicas: 7 } } });
  const replicas = policies.find(({ name }) => name === "ramet-bounded-replicas");
  expect(replicas?.configSchema?.properties).toMatchObject({
    maxReplicas: { type: "integer", default: 7 },
    exempt: { type: "array", default: [] },
  });
  const lifetimes = policies.find(({ name }) => name === "ramet-bounded-lifetimes");
  expect(lifetimes?.configSchema?.properties["maxLifetime"]).toMatchObject({ type: "string", default: "7 days" });
});

it("enforces violations by default, or only reports them", () => {
  expect(new Set(guardrails().map(({ enforcementLevel }) => enforcementLevel))).toEqual(new Set(["mandatory"]));
  const advisory = guardrails({ enforcementLevel: "advisory" });
  expect(new Set(advisory.map(({ enforcementLevel }) => enforcementLevel))).toEqual(new Set(["advisory"]));
});

it("documents every rule and every setting", async () => {
  const page = await readFile(new URL("../docs/tasks/guardrails.md", import.meta.url), "utf8");
  const names = guardrails().flatMap(({ name, configSchema }) => [
    name,
    ...Object.keys(configSchema?.properties ?? {}),
  ]);
  expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
});
