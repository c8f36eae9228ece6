import { expect, it } from "vitest";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { type LogPart, sandboxLog } from "./observe.ts";
import type { ServiceParts } from "./parts.ts";

const sandbox = Sandbox.parse({
  apiVersion,
  kind: "Sandbox",
  metadata: { name: "a", namespace: "t", uid: "1", resourceVersion: "1", creationTimestamp: "2030-01-01T00:00:00Z" },
  spec: { template: { spec: { containers: [{ name: "main", image: "python" }] } } },
  status: { phase: "Running", conditions: [] },
});
const service = { sandboxes: { current: () => sandbox }, known: { checkpointsOf: () => [] } };

/** Stands in for a cell, which selects lines by the query, and for the gateway, which stops after the limit. */
function reader(log: readonly string[]) {
  const asked: URLSearchParams[] = [];
  const read = (_: Sandbox, { path, limitBytes }: { path: string; limitBytes: number }) => {
    const query = new URL(path, "http://cell").searchParams;
    asked.push(query);
    const [since, tail] = [query.get("sinceTime"), query.get("tailLines")];
    const selected = log.filter((line) => since === null || line >= since).slice(tail === null ? 0 : -Number(tail));
    const text = Buffer.from(selected.map((line) => `${line}\n`).join(""));
    return Promise.resolve(text.subarray(0, limitBytes).toString("utf8"));
  };
  const observed = { service: service as unknown as ServiceParts, guests: { read } };
  const logged = (part: LogPart) => sandboxLog(observed, sandbox, part, new AbortController().signal);
  return { asked, logged };
}

const lineAt = (time: number, text: string): string => `${new Date(time).toISOString()} ${text}`;

it("reads a log that is larger than an answer to its end, and neither cuts a line nor leaves one out", async () => {
  const text = "ü".repeat(499);
  // Three lines have the same time each.
  const log = Array.from({ length: 25_000 }, (_, at) => lineAt(1_000 + Math.floor(at / 3), `${at} ${text}`));
  const { asked, logged } = reader(log);
  const seen: string[] = [];
  for (let since = 0; ;) {
    const { lines, isCut } = await logged({ since });
    seen.push(...lines.map(({ time, text: line }) => lineAt(time.getTime(), line)));
    if (!isCut) break;
    since = lines.at(-1)!.time.getTime() + 1;
  }
  expect(seen).toHaveLength(log.length);
  expect(seen.findIndex((line, at) => line !== log[at])).toBe(-1);
  expect(asked.length).toBeGreaterThan(5);
  expect(asked.every((query) => !query.has("tailLines"))).toBe(true);
});

it("returns the last lines without a time, and those of a time that no cell knows", async () => {
  const log = Array.from({ length: 10_001 }, (_, at) => lineAt(at, `line ${at}`));
  const { asked, logged } = reader(log);
  expect((await logged({})).lines[0]?.text).toBe("line 1");
  expect((await logged({ tailLines: 1 })).lines.map(({ text }) => text)).toEqual(["line 10000"]);
  expect((await logged({ since: -1e14 })).lines).toHaveLength(log.length);
  expect(await logged({ since: 8.64e15 })).toEqual({ lines: [], isCut: false });
  expect(asked.at(-1)?.get("sinceTime")).toBe("9999-12-31T23:59:59.999Z");
});
