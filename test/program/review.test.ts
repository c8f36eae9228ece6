import { access, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import * as z from "zod";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { version } from "../../src/api/schema/kind.ts";
import { reviewHeadings } from "../../src/api/snapshot/snapshot-review.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeManifest } from "../../src/kube/object.ts";
import { openControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { tokenOf, writeKubeconfig } from "../setup/service-accounts.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";

const example = fileURLToPath(new URL("../../examples/review/", import.meta.url));
const policyPack = join(example, "policy");
const name = "snapshot-previewer";
const namespace = "default";

/**
 * A reviewer sees everything and can change nothing. There are no controllers: the test writes their status. The tests
 * depend on their order.
 */
let plane: TestControlPlane;
let world: ProgramWorld;
let client: KubeClient;
let directory: string;
let previewer: string;

beforeAll(async () => {
  plane = await openControlPlane();
  client = new KubeClient(plane.connection);
  directory = await mkdtemp(join(tmpdir(), "ramet-review-"));
  for (const document of parseAllDocuments(await readFile(join(example, "previewer.yaml"), "utf8"))) {
    const manifest = document.toJS() as KubeManifest;
    await client.resource(refOf(manifest)).create(manifest);
  }
  previewer = await kubeconfigOf();
  world = await openProgram("examples/review", { kubeconfig: plane.kubeconfigPath });
});

afterAll(async () => {
  await client.close();
  await world.remove();
  await plane.stop();
  await rm(directory, { recursive: true, force: true });
});

it("previews a pull request and passes the policies", async () => {
  const preview = await world.engine.with({ kubeconfig: previewer, policyPack }).preview();
  expect(preview.text).not.toMatch(/error|warning/i);
  expect(preview.succeeded).toBe(true);
  expect(preview.outputs["digest"]).toMatch(/^sha256:/);
});

it("warns of a field without effect, and does not fail", async () => {
  const [before, after] = [
    'image: "python:3.13-slim",',
    'image: "python:3.13-slim", persistentContents: ["ip", "memory"],',
  ];
  await world.edit(before, after);
  const preview = await world.engine.with({ kubeconfig: previewer, policyPack }).preview();
  await world.edit(after, before);
  expect(preview.succeeded).toBe(true);
  const warning = "With Ramet's controllers, spec.persistentContents[0] ip has no effect: ";
  expect(preview.text).toContain(warning);
});

it("fails a pull request that violates a rule and names the rule", async () => {
  await world.edit("replicas: 3", "replicas: 51");
  const preview = await world.engine.with({ kubeconfig: previewer, policyPack }).preview();
  await world.edit("replicas: 51", "replicas: 3");
  expect(preview.succeeded).toBe(false);
  expect(preview.text).toContain(
    "\nerror: pool: [ramet-bounded-replicas] Sets and claims must not exceed the maximum number of sandboxes.\n" +
      "replicas is 51; the maximum is 50. Reduce the replicas, or ask for a higher maximum.",
  );
});

it("stops an update that violates a rule before anything is created, regardless of permissions", async () => {
  await world.edit("replicas: 3", "replicas: 51");
  const up = await world.engine.with({ policyPack }).up();
  await world.edit("replicas: 51", "replicas: 3");
  expect(up.succeeded).toBe(false);
  expect(up.text).toContain("error: pool: [ramet-bounded-replicas]");
  for (const kind of [sandboxTemplateKind, namedSnapshotKind, sandboxSetKind]) {
    expect(await resourceOf(kind).list({ namespace })).toMatchObject({ items: [] });
  }
});

it("cannot apply changes with the previewer's permissions", async () => {
  const up = await world.engine.with({ kubeconfig: previewer }).up();
  expect(up.succeeded).toBe(false);
  expect(up.text).toMatch(/forbidden|may not/i);
});

it("previews which steps are rebuilt and which sets roll", async () => {
  const { outputs } = await world.engine.preview();
  const [up] = await Promise.all([world.engine.up(), serve(String(outputs["digest"]))]);
  expect(up).toMatchObject({ succeeded: true, outputs: { version: 1 } });
  await world.edit("--rows 100000", "--rows 200000");
  const review = join(directory, "review.md");
  vi.stubEnv("RAMET_REVIEW_FILE", review);
  onTestFinished(() => void vi.unstubAllEnvs());
  const preview = await world.engine.with({ kubeconfig: previewer, policyPack }).preview();
  expect(preview.text).toContain("rebuilds from step 2 of 4; pool rolls 3 sandboxes");
  const [headings, line, row, ...more] = (await readFile(review, "utf8")).split("\n");
  expect([headings, line, more]).toEqual([...reviewHeadings.trimEnd().split("\n"), [""]]);
  expect(row).toMatch(
    /^\| <code>python-data<\/code> \| .* \| 1 of 4 \| 3, from <code>run .*<code>pool .* \| unknown \|$/,
  );
});

it("runs only for pull requests of the repository, with existing files", async () => {
  const workflow = Workflow.parse(parse(await readFile(join(example, ".github/workflows/preview.yaml"), "utf8")));
  expect(Object.keys(workflow.on)).toEqual(["pull_request"]);
  expect(workflow.permissions).toEqual({ contents: "read", "pull-requests": "write" });
  expect(workflow.jobs.preview.if).toContain("== github.repository");
  const pulumi = workflow.jobs.preview.steps.find(({ uses }) => uses?.startsWith("pulumi/actions@") ?? false);
  const comment = workflow.jobs.preview.steps.at(-1);
  expect(comment?.run).toContain('--body-file "$RAMET_REVIEW_FILE"');
  // Of this run alone.
  for (const step of [pulumi, comment]) expect(step?.env["RAMET_REVIEW_FILE"]).toBe("${{ runner.temp }}/review.md");
  expect(workflow.jobs.preview.steps.map(({ run }) => run)).toContain('rm -f "$RUNNER_TEMP/review.md"');
  expect(pulumi?.with).toMatchObject({ command: "preview", "comment-on-pr": true, policyPacks: "policy" });
  await access(join(policyPack, "PulumiPolicy.yaml"));
});

/** A stand-in for the controllers: writes the status of a built snapshot and a full set. */
async function serve(digest: string): Promise<void> {
  const lastTransitionTime = "2030-01-01T00:00:00Z";
  const condition = (type: string, status: string, reason: string) => ({
    type,
    status,
    reason,
    message: "a test says so",
    lastTransitionTime,
  });
  const built = { version: 1, digest, checkpointId: "one", checkpointName: "one", createdAt: lastTransitionTime };
  await say(namedSnapshotKind, "python-data", {
    version: 1,
    digest,
    checkpointId: "one",
    versions: [built],
    conditions: [condition("Ready", "True", "VersionReady"), condition("Building", "False", "Built")],
  });
  await say(sandboxSetKind, "pool", {
    replicas: 3,
    availableReplicas: 3,
    conditions: [condition("Ready", "True", "Ready"), condition("Updated", "True", "Updated")],
  });
}

type Kind = Record<"group" | "plural" | "kind", string>;

function resourceOf({ group, plural, kind }: Kind) {
  return client.resource({ group, version, plural, kind, namespaced: true });
}

async function say(kind: Kind, of: string, status: object): Promise<void> {
  const resource = resourceOf(kind);
  const at = { namespace, name: of };
  await expect.poll(() => resource.find(at), { timeout: 60_000 }).toBeDefined();
  const { metadata } = await resource.get(at);
  await resource.mergePatch(
    at,
    { status: { ...status, observedGeneration: metadata.generation } },
    { subresource: "status" },
  );
}

/** A kubeconfig with a token of the previewer. */
async function kubeconfigOf(): Promise<string> {
  const path = join(directory, "kubeconfig");
  const user = { token: await tokenOf(client, { namespace, name }) };
  await writeKubeconfig(path, { like: plane.kubeconfigPath, user });
  return path;
}

function refOf({ apiVersion, kind, metadata }: KubeManifest) {
  const [of = "", group = ""] = apiVersion.split("/").reverse();
  return { group, version: of, plural: `${kind.toLowerCase()}s`, kind, namespaced: metadata.namespace !== undefined };
}

const Step = z.object({
  uses: z.string().optional(),
  run: z.string().optional(),
  with: z.record(z.string(), z.unknown()).optional(),
  env: z.record(z.string(), z.string()).default({}),
});
const Workflow = z.object({
  on: z.record(z.string(), z.unknown()),
  permissions: z.record(z.string(), z.string()),
  jobs: z.object({
    preview: z.object({ if: z.string(), steps: z.array(Step) }),
  }),
});
