import { afterAll, beforeAll, expect, it } from "vitest";
import type { NamedSnapshotManifest } from "../../src/api/kinds/named-snapshot.ts";
import { baseTemplate, openSnapshotWorld, untilReleased, type SnapshotWorld } from "./named-snapshot-world.ts";

/** Tests building, caching, rolling back and cloning named snapshots with real cells and real gVisor. */
let world: SnapshotWorld;

beforeAll(async () => {
  world = await openSnapshotWorld();
});
afterAll(() => world.close());

const server = `
import http.server, os
class H(http.server.BaseHTTPRequestHandler):
    count = 0
    def do_GET(self):
        H.count += 1
        body = (str(H.count) + " " + open("/srv/data").read() + os.environ.get("WHO", "")).encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("", 8000), H).serve_forever()
`;
const recipe = (data: string): NamedSnapshotManifest["spec"]["recipe"] => [
  { run: `mkdir -p /srv && date +%s%N > /srv/first && echo first step` },
  { copy: { path: "/srv/server.py", content: server, mode: "0755" } },
  { run: `test -x /srv/server.py && printf %s "${data}" > data`, cwd: "/srv" },
  { env: { WHO: "!" } },
  { start: "exec python3 /srv/server.py" },
  { waitFor: { port: 8000 } },
];

it("builds a recipe step by step, and a clone has its files and its memory", async () => {
  await world.apply("web", { from: { template: { name: "base" } }, recipe: recipe("one") });
  const built = await world.settled("web");
  expect(built.status).toMatchObject({ version: 1, progress: "6/6", latestVersion: 1 });
  expect(built.status?.steps?.map(({ state, cached }) => `${state} ${String(cached)}`)).toEqual(
    Array.from({ length: 6 }, () => "Succeeded false"),
  );
  expect(built.status?.steps?.[0]?.output).toBe("first step\n");
  const first = { version: 1, parent: "template/base", randomPrograms: ["python"] };
  expect(built.status?.versions?.[0]).toMatchObject(first);
  await world.noBuilders("web");
  await world.clone("web-a", built.status?.checkpointId ?? "");
  expect(await world.get("web-a")).toBe("1 one!");
  const log = await world.log("web");
  expect(log["step-001.log"]).toBe("first step\n");
});

it("does nothing for the same recipe, and starts at a changed step from the state before it", async () => {
  const before = await world.settled("web");
  await world.apply("web", { from: { template: { name: "base" } }, recipe: recipe("one"), keepVersions: 3 });
  expect((await world.settled("web")).status).toMatchObject({ version: 1, digest: before.status?.digest });

  await world.apply("web", { from: { template: { name: "base" } }, recipe: recipe("two"), keepVersions: 3 });
  const after = await world.until("web", ({ status }) => status?.version === 2);
  expect(after.status?.steps?.map(({ cached }) => cached)).toEqual([true, true, false, false, false, false]);
  await world.clone("web-b", "web");
  expect(await world.get("web-b")).toBe("1 two!");
  const [a, b] = await Promise.all(["web-a", "web-b"].map((name) => world.read(name, "/srv/first")));
  expect(b).toBe(a);
});

it("makes a kept version current again without building it", async () => {
  const builders = world.buildersSeen();
  await world.apply("web", { from: { template: { name: "base" } }, recipe: recipe("one"), keepVersions: 3 });
  const current = await world.until("web", ({ status }) => status?.version === 1);
  expect(current.status?.versions?.map(({ version }) => version)).toEqual([1, 2]);
  expect(world.buildersSeen()).toEqual(builders);
});

it("clones a snapshot, a version or a digest, and names the kept versions for a missing one", async () => {
  const { status } = await world.settled("web");
  await world.clone("by-name", "web");
  await world.clone("by-version", "web@2");
  await world.clone("by-digest", `web@${status?.digest ?? ""}`);
  expect(await Promise.all(["by-name", "by-version", "by-digest"].map(world.get))).toEqual([
    "1 one!",
    "1 two!",
    "1 one!",
  ]);
  await expect(world.clone("by-nothing", "web@7")).rejects.toThrow(/no version web@7.*Kept versions: 1, 2/);
  await expect(world.clone("by-nobody", "nobody@1")).rejects.toThrow(/nobody does not exist/);
});

it("reports number, command, exit code and output of a failing step, keeps the old version and deletes the builder", async () => {
  const broken = [...(recipe("one") ?? []).slice(0, 2), { run: "echo no such thing >&2; exit 3" }];
  await world.apply("web", { from: { template: { name: "base" } }, recipe: broken, keepVersions: 3 });
  const failed = await world.settled("web");
  expect(failed.status).toMatchObject({ version: 1, build: { failure: { reason: "StepFailed", step: 3 } } });
  expect(failed.status?.steps?.[2]).toMatchObject({ state: "Failed", exitCode: 3, output: "no such thing\n" });
  const building = failed.status?.conditions?.find(({ type }) => type === "Building");
  expect(building?.message).toMatch(
    /Step 3 of 3 \(run echo no such thing >&2; exit 3\) failed: exit code 3\nno such thing/,
  );
  expect(failed.status?.conditions).toContainEqual(expect.objectContaining({ type: "Ready", status: "True" }));
  await world.noBuilders("web");

  // A requested build tries the same recipe again.
  await world.annotate("web", { "ramet.dev/build-request": "again" });
  const again = await world.until(
    "web",
    ({ status }) => status?.build?.request === "again" && status.build.failure !== undefined,
  );
  expect(again.status?.steps?.map(({ cached }) => cached)).toEqual([true, true, false]);
});

it("rebuilds a child when its parent changes, unless it pins a version", async () => {
  const echo = [{ run: "cat /srv/data; echo child" }];
  await world.apply("child", { from: { snapshot: { name: "web" } }, recipe: echo });
  await world.apply("pinned", { from: { snapshot: { name: "web", version: 1 } }, recipe: echo });
  const [child, pinned] = await Promise.all([
    world.until("child", ({ status }) => status?.version === 1),
    world.until("pinned", ({ status }) => status?.version === 1),
  ]);
  expect(child.status?.digest).toBe(pinned.status?.digest);
  expect(child.status?.steps?.[0]?.output).toBe("onechild\n");

  await world.apply("web", { from: { template: { name: "base" } }, recipe: recipe("two"), keepVersions: 3 });
  const followed = await world.until("child", ({ status }) => status?.version === 2);
  expect(followed.status?.versions?.[1]).toMatchObject({ parent: "web@2" });
  expect(followed.status?.steps?.[0]?.output).toBe("twochild\n");
  expect((await world.settled("pinned")).status?.version).toBe(1);
});

it("rejects a cycle, naming its snapshots", async () => {
  await world.apply("a", { from: { snapshot: { name: "b" } } });
  await world.apply("b", { from: { snapshot: { name: "a" } } });
  const { status } = await world.until("a", ({ status: now }) => now?.message?.includes("→") ?? false);
  expect(status?.message).toMatch(/built from itself: a → b → a/);
});

it("continues a step after the controller restarts, and runs it once", async () => {
  const slow = [{ run: "echo x >> /tmp/runs; sleep 4; cat /tmp/runs" }, { run: "cat /tmp/runs" }];
  await world.apply("slow", { from: { template: { name: "base" } }, recipe: slow });
  await world.until("slow", ({ status }) => status?.steps?.[0]?.state === "Running");
  await world.untilFile(await world.builderOf("slow"), "/tmp/runs");
  await world.cluster.restartControllers();
  const { status } = await world.until("slow", ({ status: now }) => now?.version === 1);
  expect(status?.steps?.map(({ output }) => output)).toEqual(["x\n", "x\n"]);
  expect(status?.build?.attempt).toBe(1);
});

it("replaces a lost builder and continues from the last captured step", async () => {
  const steps = [{ run: "date +%s%N > /tmp/first; cat /tmp/first" }, { run: `${untilReleased}; cat /tmp/first` }];
  await world.apply("lost", { from: { template: { name: "base" } }, recipe: steps });
  await world.until("lost", ({ status }) => status?.steps?.[1]?.state === "Running");
  const name = await world.builderOf("lost");
  await world.cluster.seen.sandboxes.resource.delete({ namespace: "t", name });
  await world.until("lost", ({ status }) => status?.build?.attempt === 2 && status.steps?.[1]?.state === "Running");
  await world.release(await world.builderOf("lost"));
  const { status } = await world.until("lost", ({ status: now }) => now?.version === 1);
  expect(status?.build?.attempt).toBe(2);
  expect(status?.steps?.map(({ cached }) => cached)).toEqual([true, false]);
  expect(Number(status?.steps?.[1]?.output)).toBeGreaterThan(0);
});

it("builds from a running sandbox, which keeps running", async () => {
  await world.apply("of-sandbox", { from: { sandbox: { name: "web-a" } }, recipe: [] });
  const { status } = await world.until("of-sandbox", ({ status: now }) => now?.version === 1);
  await world.clone("of-sandbox-a", "of-sandbox");
  expect(await world.get("of-sandbox-a")).toMatch(/ one!$/);
  expect(await world.get("web-a")).toMatch(/ one!$/);
  expect(status?.versions?.[0]?.parent).toBe("sandbox/web-a");
});

it("waits for a source sandbox that is still starting", async () => {
  const metadata = { name: "starting", namespace: "t" };
  const spec = { template: baseTemplate };
  await world.apply("of-starting", { from: { sandbox: { name: "starting" } }, recipe: [] });
  await world.cluster.create({ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", metadata, spec });
  const { status } = await world.until("of-starting", ({ status: now }) => now?.build?.endedAt !== undefined);
  expect(status).toMatchObject({ version: 1, build: { attempt: 1 } });
});

it("copies a Secret without showing it anywhere, and lists it in the version", async () => {
  await world.secret("key", { token: "hunter2" });
  const copy = { path: "/root/token", secretKeyRef: { name: "key", key: "token" }, mode: "0600" };
  const recipe = [{ copy }, { run: "cat /root/token; echo ' is it'" }];
  await world.apply("secret", { from: { template: { name: "base" } }, recipe, deletionPolicy: "Delete" });
  const { status } = await world.until("secret", ({ status: now }) => now?.version === 1);
  expect(status?.versions?.[0]?.secrets).toEqual(["key"]);
  expect(status?.steps?.[1]?.output).toBe("[secret] is it\n");
  const log = await world.log("secret");
  expect(log["step-002.log"]).toBe("[secret] is it\n");
  expect(JSON.stringify([status, log])).not.toContain("hunter2");
  await world.clone("secret-a", "secret");
  expect(await world.read("secret-a", "/root/token")).toBe("hunter2");
});

it("hides and lists Secrets of the source like its own", async () => {
  await world.secret("parent-key", { token: "correct horse" });
  const copy = { path: "/root/token", secretKeyRef: { name: "parent-key", key: "token" } };
  await world.apply("secret-parent", { from: { template: { name: "base" } }, recipe: [{ copy }] });
  await world.apply("secret-child", {
    from: { snapshot: { name: "secret-parent" } },
    recipe: [{ run: "cat /root/token; echo ' is its'" }],
  });
  const { status } = await world.until("secret-child", ({ status: now }) => now?.version === 1);
  expect(status?.versions?.[0]?.secrets).toEqual(["parent-key"]);
  expect(status?.steps?.[0]?.output).toBe("[secret] is its\n");
  expect(JSON.stringify([status, await world.log("secret-child")])).not.toContain("correct horse");
});

it("hides and lists Secrets that a template gives as variables, also in what is built from a clone", async () => {
  await world.secret("of-template", { token: "battery staple" });
  const variable = { name: "TOKEN", valueFrom: { secretKeyRef: { name: "of-template", key: "token" } } };
  const [main] = baseTemplate.spec.containers;
  await world.cluster.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxTemplate",
    metadata: { name: "with-secret", namespace: "t" },
    spec: { template: { spec: { containers: [{ ...main, env: [variable] }] } } },
  });
  const recipe = [{ run: "echo $TOKEN it is" }];
  await world.apply("variable", { from: { template: { name: "with-secret" } }, recipe });
  const { status } = await world.until("variable", ({ status: now }) => now?.version === 1);
  expect(status?.versions?.[0]?.secrets).toEqual(["of-template"]);
  expect(status?.steps?.[0]?.output).toBe("[secret] it is\n");
  expect(JSON.stringify([status, await world.log("variable")])).not.toContain("battery");

  await world.clone("variable-a", "variable");
  await world.apply("from-clone", { from: { sandbox: { name: "variable-a" } }, recipe });
  const built = await world.until("from-clone", ({ status: now }) => now?.version === 1);
  expect(built.status?.versions?.[0]?.secrets).toEqual(["of-template"]);
  const id = built.status?.checkpointId;
  const { status: captured } = await world.cluster.checkpoint(
    `t/${built.status?.versions?.[0]?.checkpointName ?? ""}`,
    ({ status: now }) => now?.checkpointId === id,
  );
  expect(captured?.ramet?.secrets).toEqual(["of-template"]);
});

it("keeps a deleted snapshot while objects follow it, then deletes all its objects", async () => {
  await world.cluster.seen.snapshots.resource.delete({ namespace: "t", name: "web" });
  await world.until(
    "web",
    ({ status }) => status?.message?.includes("NamedSnapshot child, NamedSnapshot pinned") ?? false,
  );
  for (const name of ["child", "pinned", "web"]) {
    await world.cluster.seen.snapshots.resource.delete({ namespace: "t", name });
    if (name !== "web") await world.cluster.untilDeleted("snapshots", `t/${name}`);
  }
  await world.cluster.untilDeleted("snapshots", "t/web");
  // With the policy Retain, versions are kept. Checkpoints that only builds need are deleted.
  const kept = (await world.cluster.seen.checkpoints.resource.list({ namespace: "t" })).items;
  const ofWeb = kept.filter(({ metadata }) => metadata.labels?.["ramet.dev/snapshot"] === "web");
  expect(
    ofWeb
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map(({ metadata }) => metadata.labels?.["ramet.dev/purpose"]),
  ).toEqual(["version", "version"]);

  const [version] = (await world.settled("secret")).status?.versions ?? [];
  await world.cluster.seen.snapshots.resource.delete({ namespace: "t", name: "secret" });
  await world.cluster.untilDeleted("snapshots", "t/secret");
  await world.cluster.untilDeleted("checkpoints", `t/${version?.checkpointName ?? ""}`);
});
