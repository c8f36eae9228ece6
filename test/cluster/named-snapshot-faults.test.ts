import { afterAll, beforeAll, expect, it } from "vitest";
import type { NamedSnapshot, NamedSnapshotManifest } from "../../src/api/kinds/named-snapshot.ts";
import { findCondition, isConditionTrue } from "../../src/kube/conditions.ts";
import { openSnapshotWorld, untilReleased, type SnapshotWorld } from "./named-snapshot-world.ts";

/** Tests with real cells that a failing recipe ends with a message that names the cause. */
let world: SnapshotWorld;

beforeAll(async () => {
  world = await openSnapshotWorld({
    egress: { default: "deny", allow: ["pypi.example:443"] },
    environment: { RAMET_SANDBOX_PROCESSES: "300" },
  });
});
afterAll(() => world.close());

const python = (code: string): string => `python3 -c '${code}'`;
/** Each process starts two more and keeps running. */
const forksWithoutLimit = "b() { b | b & }; b; sleep 100";

type Recipe = NamedSnapshotManifest["spec"]["recipe"];
const template = { template: { name: "base" } };

it.each<[string, Recipe, RegExp]>([
  [
    "a port that is never opened",
    [{ waitFor: { port: 9, timeoutSeconds: 1 } }],
    /Step 1 of 1 \(waitFor port 9\) failed: port 9 did not accept connections .* within 1 s/,
  ],
  [
    "a file that never appears",
    [{ waitFor: { file: "/never", timeoutSeconds: 1 } }],
    /\/never did not appear within 1 s/,
  ],
  [
    "a command that never succeeds",
    [{ waitFor: { command: "echo not yet; false", timeoutSeconds: 4 } }],
    /echo not yet; false did not exit with code 0 within 4 s\nnot yet/,
  ],
  [
    "a command that takes too long",
    [{ run: "echo started; sleep 60", timeoutSeconds: 4 }],
    /it took longer than 4 s and was stopped\nstarted/,
  ],
  [
    "a server that exits",
    [{ start: "exit 0" }, { run: "sleep 0.2" }],
    /Step \d of 2 .* failed: the command of step 1 \(exit 0\) is no longer running/,
  ],
  ["a missing directory", [{ run: "true", cwd: "/nowhere" }], /working directory "\/nowhere" is not a directory/],
  ["a missing user", [{ run: "true", user: "nobody-here" }], /failed: .*nobody-here/],
  [
    "a file on the node's own network",
    [{ copy: { path: "/a", url: "http://127.0.0.1:1/", sha256: "0".repeat(64) } }],
    /Cannot fetch .*: 127\.0\.0\.1 is not a public address/,
  ],
  [
    "an address that egress rules deny",
    [{ run: python(`import urllib.request; urllib.request.urlopen("http://203.0.113.5")`) }],
    /exit code 1; egress of sandboxes is denied except to pypi\.example:443, and .* a reset connection\n.*reset by peer/s,
  ],
  [
    "a name that egress rules deny",
    [{ run: python(`import urllib.request; urllib.request.urlopen("http://example.org")`) }],
    /exit code 1; egress of sandboxes is denied except to pypi\.example:443, and .* a name that cannot be resolved\n/,
  ],
])("reports the cause when a step fails: %s", async (fault, recipe, message) => {
  const name = fault.replaceAll(/[^a-z]+/g, "-").slice(0, 40);
  await world.apply(name, { from: template, recipe });
  const { status } = await world.settled(name);
  expect(status?.build?.failure?.reason).toBe("StepFailed");
  expect(status?.message).toMatch(message);
  expect(status?.build?.attempt).toBe(1);
  await world.noBuilders(name);
});

it.each([
  ["limits", "bounded"],
  ["no limits", "base"],
])("reports a step that starts processes without end in a template with %s", async (_, source) => {
  await world.template("bounded", "512Mi");
  const name = `bomb-${source}`;
  const recipe = [{ run: "true" }, { run: forksWithoutLimit }];
  await world.apply(name, { from: { template: { name: source } }, recipe });
  const { status } = await world.settled(name);
  expect(status?.build).toMatchObject({ attempt: 3, failure: { reason: "BuilderFailed" } });
  expect(status?.message).toMatch(
    /is Failed in step 2 of 2 \(run b\(\) .*\): gVisor ended the sandbox: it exceeded its limit of 300 processes and threads on the node/,
  );
  expect(status?.steps?.map(({ state }) => state)).toEqual(["Succeeded", "Failed"]);
  await world.noBuilders(name);
});

it("reports the program's error when a step fills a volume", async () => {
  await world.template("small-disk", "512Mi", { mountPath: "/data", sizeLimit: "16Mi" });
  const recipe = [{ run: "head -c 64M /dev/zero > /data/big" }];
  await world.apply("disk", { from: { template: { name: "small-disk" } }, recipe });
  const { status } = await world.settled("disk");
  expect(status?.message).toMatch(/Step 1 of 1 .* failed: exit code 1\n.*No space left on device/);
  await world.noBuilders("disk");
});

it("fails the build with the cause after some attempts when a step takes all memory of its builder", async () => {
  await world.template("small", "128Mi");
  await world.apply("full", {
    from: { template: { name: "small" } },
    recipe: [{ run: python(`b"x" * 400_000_000`) }],
  });
  const { status } = await world.settled("full");
  expect(status?.build).toMatchObject({ attempt: 3, failure: { reason: "BuilderFailed" } });
  expect(status?.message).toMatch(
    /is Failed in step 1 of 1 \(run python3 .*\): the sandbox was killed: it exceeded its memory limit of 128Mi/,
  );
  await world.noBuilders("full");
});

it("names a missing Secret, and continues when it is created", async () => {
  const recipe = [{ copy: { path: "/token", secretKeyRef: { name: "late", key: "token" } } }];
  await world.apply("missing", { from: { template: { name: "nobody" } }, recipe });
  expect((await world.settled("missing")).status?.message).toMatch(
    /there is no SandboxTemplate nobody in the namespace t/,
  );
  await world.apply("missing", { from: template, recipe });
  const { status } = await world.settled("missing");
  expect(status?.message).toMatch(/Cannot copy Secret late: it does not exist/);
  await world.secret("late", { token: "x" });
  await world.until("missing", ({ status: now }) => now?.version === 1);
});

it("starts another build when the template changes during a build, and stops the first", async () => {
  await world.template("edited", "256Mi");
  await world.apply("edited", { from: { template: { name: "edited" } }, recipe: [{ run: untilReleased }] });
  const before = await world.until("edited", ({ status }) => status?.steps?.[0]?.state === "Running");
  await world.template("edited", "300Mi");
  const isOther = (digest: string | undefined) => digest !== before.status?.build?.digest;
  await world.until("edited", ({ status: now }) => isOther(now?.build?.digest) && now?.steps?.[0]?.state === "Running");
  await world.release(await world.builderOf("edited"));
  const { status } = await world.until("edited", ({ status: now }) => now?.version === 1);
  expect(isOther(status?.digest)).toBe(true);
  await world.noBuilders("edited");
});

it("joins a build that is requested again while it runs", async () => {
  const recipe = [{ run: `${untilReleased}; exit 7` }];
  await world.apply("requested", { from: template, recipe });
  await world.until("requested", ({ status: now }) => now?.steps?.[0]?.state === "Running");
  await world.release(await world.builderOf("requested"));
  await world.settled("requested");
  const before = world.buildersSeen().length;
  await world.annotate("requested", { "ramet.dev/build-request": "one" });
  await world.until(
    "requested",
    ({ status }) => status?.build?.request === "one" && status.steps?.[0]?.state === "Running",
  );
  await world.annotate("requested", { "ramet.dev/build-request": "two" });
  await world.until("requested", ({ status: now }) => now?.build?.request === "two");
  await world.release(await world.builderOf("requested"));
  const { status } = await world.until("requested", ({ status: now }) => now?.build?.endedAt !== undefined);
  expect(status?.build).toMatchObject({ request: "two", attempt: 1, failure: { reason: "StepFailed" } });
  expect(world.buildersSeen().length).toBe(before + 1);
});

it("builds two named snapshots of one recipe at the same time, each with its own version and the same digest", async () => {
  const recipe = [{ run: "echo same" }, { run: "echo same" }];
  await Promise.all(["twin-a", "twin-b"].map((name) => world.apply(name, { from: template, recipe })));
  const [a, b] = await Promise.all(
    ["twin-a", "twin-b"].map((name) => world.until(name, ({ status }) => status?.version === 1)),
  );
  expect(a?.status?.digest).toBe(b?.status?.digest);
  expect(a?.status?.checkpointId).not.toBe(b?.status?.checkpointId);
});

it("lets builds beyond the quota wait, names it and those that build, and starts them in turn, also after a restart", async () => {
  const { resource } = world.cluster.seen.namespaces;
  const quota = (text: string | null) =>
    resource.mergePatch({ name: "t" }, { metadata: { annotations: { "ramet.dev/quota": text } } });
  await quota("builds=1");
  await world.apply("turn-a", { from: template, recipe: [{ run: untilReleased }] });
  await world.builderOf("turn-a");
  for (const name of ["turn-b", "turn-c"])
    await world.apply(name, { from: template, recipe: [{ run: `echo ${name}` }] });
  const waits = ({ status }: NamedSnapshot) =>
    findCondition(status?.conditions, "Building")?.reason === "BuildQuotaReached";
  const [b] = await Promise.all(["turn-b", "turn-c"].map((name) => world.until(name, waits)));
  expect(b?.status?.message).toBe(
    "The build waits: the namespace t uses 1 of 1 of its quota builds (turn-a). It starts when one of them ends, or when an administrator raises builds in the annotation ramet.dev/quota of the namespace",
  );
  await world.cluster.restartControllers();
  const seen = new Set<string>();
  const { store } = world.cluster.seen.snapshots;
  const stop = store.subscribe(() => {
    const building = ["turn-a", "turn-b", "turn-c"].filter((name) => {
      const found = store.get(`t/${name}`);
      return found !== undefined && !waits(found) && isConditionTrue(found.status?.conditions, "Building");
    });
    seen.add(building.join("+"));
  });
  let released = "";
  const versionOfFirst = () => {
    // The restart can interrupt the step, which then runs in another builder. There is none after the build.
    const uid = store.get("t/turn-a")?.status?.build?.builderUid;
    const builder = uid === undefined ? undefined : world.cluster.seen.sandboxes.store.byUid(uid);
    if (builder !== undefined && builder.metadata.name !== released) {
      released = builder.metadata.name;
      void world.release(released).catch(() => {
        released = "";
      });
    }
    return store.get("t/turn-a")?.status?.version;
  };
  await expect.poll(versionOfFirst, { timeout: 60_000, interval: 500 }).toBe(1);
  for (const name of ["turn-b", "turn-c"]) await world.until(name, ({ status }) => status?.version === 1);
  stop();
  expect([...seen].filter((building) => building.includes("+"))).toEqual([]);
  await quota(null);
});
