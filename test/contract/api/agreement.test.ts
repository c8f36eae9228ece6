import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { kinds } from "../../../src/api/kinds/crd.ts";
import { startControlPlane, type TestControlPlane } from "../../setup/control-plane.ts";
import { ApiClient, collection } from "./api-client.ts";

/**
 * The API server and the programs validate by one schema, rendered twice. The programs must accept every object that the server
 * accepts, because one unreadable object would stop a controller. The server must reject every object that they reject.
 */

let controlPlane: TestControlPlane;
let api: ApiClient;

beforeAll(async () => {
  controlPlane = await startControlPlane();
  api = new ApiClient(controlPlane);
  await api.install();
});
afterAll(async () => {
  await api.close();
  await controlPlane.stop();
});

const sometimes = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 3 });
const amount = fc.constantFrom("0", "1", "30", "999", "1.5", "1.", ".5", "007", "");
const unit = fc.constantFrom("ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "S", "");
const duration = fc
  .tuple(fc.constantFrom("", "", "", "-", "+"), fc.array(fc.tuple(amount, unit), { maxLength: 3 }))
  .map(([sign, parts]) => sign + parts.map((part) => part.join("")).join(""));
const time = fc
  .tuple(
    fc.constantFrom("2030-01-01", "2030-02-29", "2028-02-29", "2030-04-31", "2030-13-01", "2030-1-1", "0001-01-01"),
    fc.constantFrom("T", "t", " ", ""),
    fc.constantFrom("00:00:00", "23:59:59.123456789", "23:59", "24:00:00", "00:60:00", "23:59:60"),
    fc.constantFrom("Z", "z", "+08:00", "-0800", ""),
  )
  .map((parts) => parts.join(""));
const name = fc.constantFrom("", "a", "b");
const words = fc.constantFrom("memory", "filesystem", "volumes", "ip", "podInfo", "disk", "");
const contents = fc.array(words, { maxLength: 3 });
const volumes = fc.array(fc.constantFrom("data", "*", ""), { maxLength: 2 });

const checkpoint = fc.record({
  podName: sometimes(name),
  sandboxName: sometimes(name),
  keepRunning: sometimes(fc.boolean()),
  persistentContents: sometimes(contents),
  volumes: sometimes(volumes),
  ttlAfterFinished: sometimes(duration),
});
const sandbox = fc.record({
  shutdownTime: sometimes(time),
  persistentContents: sometimes(contents),
  volumes: sometimes(volumes),
  template: sometimes(fc.constant({})),
  templateRef: sometimes(fc.constantFrom({ name: "t" }, {})),
  pauseStrategy: sometimes(fc.record({ type: sometimes(fc.constantFrom("Stop", "stop", "")) })),
});
const claim = fc.record({
  templateName: fc.constant("t"),
  replicas: sometimes(fc.constantFrom(-1, 0, 1, 2, 1.5)),
  claimTimeout: sometimes(duration),
  ttlAfterCompleted: sometimes(duration),
});
const text = fc.constantFrom("", "a", "/a", "0", "root user", "https://a.b/c");
const env = fc.dictionary(fc.constantFrom("A", "_a1", "1a", "a-b", ""), fc.constantFrom("", "x"), { maxKeys: 2 });
const keyRef = fc.record({ name: text, key: text }, { requiredKeys: ["name"] });
const step = fc.record(
  {
    run: text,
    cwd: text,
    env,
    user: text,
    timeoutSeconds: fc.constantFrom(0, 1, 1.5, 86_401),
    copy: fc.record(
      {
        path: text,
        content: text,
        configMapKeyRef: keyRef,
        secretKeyRef: keyRef,
        url: text,
        sha256: fc.constantFrom("0".repeat(64), "0"),
        mode: fc.constantFrom("0755", "755", "8", ""),
        user: text,
      },
      { requiredKeys: ["path"] },
    ),
    workdir: text,
    start: text,
    waitFor: fc.record({ port: fc.constantFrom(0, 1, 65_536), file: text, command: text }, { requiredKeys: [] }),
  },
  { requiredKeys: [] },
);
const named = fc.record({ name: text }, { requiredKeys: [] });
const snapshot = fc.record(
  {
    from: fc.record(
      {
        template: named,
        snapshot: fc.record(
          {
            name: text,
            version: fc.constantFrom(0, 1),
            digest: fc.constantFrom(`sha256:${"0".repeat(64)}`, "sha256:0"),
          },
          { requiredKeys: ["name"] },
        ),
        sandbox: named,
        checkpoint: fc.record({ id: text }),
      },
      { requiredKeys: [] },
    ),
    recipe: fc.array(step, { maxLength: 2 }),
    contents,
    keepVersions: fc.constantFrom(0, 1, 101),
    deletionPolicy: fc.constantFrom("Retain", "Keep"),
    stepCache: fc.constantFrom("EveryStep", "Some"),
    layers: fc.constantFrom(true, "yes"),
    engineUpgrade: fc.constantFrom("Auto", "Never"),
    pinnedVersion: fc.constantFrom(0, 1),
  },
  { requiredKeys: ["from"] },
);
const apiKey = fc.record(
  {
    serviceAccountName: fc.constantFrom("", "a", "a.b", "a..b", "-a", "A", "a/b", "a".repeat(254)),
    digests: fc.array(
      fc.record(
        { digest: fc.constantFrom("a", "b").map((digit) => `sha256:${digit.repeat(64)}`), expiresAt: time },
        { requiredKeys: ["digest"] },
      ),
      { maxLength: 5 },
    ),
    limits: fc.record(
      {
        sandboxes: fc.constantFrom(-1, 0, 1, 1.5, 1_000_001),
        requestsPerSecond: fc.constantFrom(0, 1, "1"),
        concurrentRequests: fc.constantFrom(0, 1, "1"),
        bytesInFlight: fc.constantFrom(-1, 0, "1", "64Mi", "1MB"),
        snapshotBytes: fc.constantFrom(-1, 0, 1.5, 2 ** 53, "1", "1.5Gi", "1e3", "Gi", "-1", "1 Gi", ""),
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: ["serviceAccountName", "digests"] },
);

it.each([
  ["Checkpoint", checkpoint],
  ["Sandbox", sandbox],
  ["SandboxClaim", claim],
  ["NamedSnapshot", snapshot],
  ["ApiKey", apiKey],
] as const)("accepts the same %s specs in the API server and in the schema", async (kind, specs) => {
  const { manifest: schema, apiVersion } = kinds.find((one) => one.kind === kind)!;
  await fc.assert(
    fc.asyncProperty(specs as fc.Arbitrary<unknown>, async (spec) => {
      const manifest = { apiVersion, kind, metadata: { name: "x" }, spec };
      const { status, body } = await api.call("POST", `${collection(kind)}?dryRun=All`, manifest);
      const parsed = schema.safeParse(JSON.parse(JSON.stringify(manifest)));
      expect({ accepted: parsed.success, why: body["message"] ?? parsed.error?.message }).toMatchObject({
        accepted: status === 201,
      });
    }),
    { numRuns: 300 },
  );
});
