import { execFile, execFileSync } from "node:child_process";
import { createPublicKey, randomBytes, verify } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { labels } from "../../src/api/names/labels.ts";
import { assertTemplateAllowed } from "../../src/api/pod/template-policy.ts";
import { PodTemplateSpec } from "../../src/api/schema/pod-template.ts";
import { systemClock } from "../../src/base/clock.ts";
import { cellProver } from "../../src/cell/client/cell-proof.ts";
import { cellKeyFromPem, newCellKeyPem, signCellToken } from "../../src/cell/client/cell-token.ts";
import { tokenVerifier } from "../../src/cell/server/token-verifier.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { installCrds } from "../../src/controllers/install-crds.ts";
import { admissionPolicies } from "../../src/install/admission-policies.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { startControlPlane } from "../setup/control-plane.ts";
import { makeNamespace } from "../setup/namespace.ts";
import { summary } from "./samples.ts";
import { aligned } from "./report.ts";

/** The time that one protection adds to the start of a sandbox, in milliseconds: medians. */
export interface HardeningFigure {
  what: string;
  /** Undefined: the time without it is 0. */
  without: number | undefined;
  with: number;
}

/** All of it together may add this many milliseconds to the start of a sandbox. */
const requiredMilliseconds = 10;

/** Measures each protection alone, in turns with the same work without it, because none of them can be turned off. */
export async function measureHardening(n: number, signal: AbortSignal): Promise<HardeningFigure[]> {
  const figures = [await templateCheck(n), await tokens(n), await proof(n), await coreLimit(n)];
  const link = await linkWithoutRights(n);
  if (link !== undefined) figures.push(link);
  return [...figures, ...(await admission(n, signal))];
}

export function hardeningTable(figures: readonly HardeningFigure[]): string {
  const added = ({ with: own, without = 0 }: HardeningFigure): number => own - without;
  const total = figures.reduce((sum, figure) => sum + Math.max(0, added(figure)), 0);
  const rows = figures.map((figure) => [
    figure.what,
    figure.without?.toFixed(2) ?? "–",
    figure.with.toFixed(2),
    added(figure).toFixed(2),
  ]);
  const verdict = `required: ≤ ${requiredMilliseconds}; ${total <= requiredMilliseconds ? "met" : "MISSED"}`;
  return [
    "what protections add to the start of a sandbox, ms (medians)",
    ...aligned([["", "without", "with", "added"], ...rows, ["all", "", "", total.toFixed(2)]]),
    `  goal   all ${total.toFixed(1)} ms (${verdict})`,
  ].join("\n");
}

const container = {
  name: "main",
  image: "python",
  command: ["python3", "-m", "http.server"],
  env: [{ name: "A", value: "b" }],
  ports: [{ containerPort: 8000 }],
  volumeMounts: [{ name: "data", mountPath: "/data" }],
};
const podSpec = { containers: [container], volumes: [{ name: "data", emptyDir: {} }] };

function templateCheck(n: number): Promise<HardeningFigure> {
  const template = PodTemplateSpec.parse({ metadata: {}, spec: podSpec });
  return alone("controllers: check the template", n, () => {
    assertTemplateAllowed(template, { name: "a" });
  });
}

/** A start needs one call to the cell with a body. */
function tokens(n: number): Promise<HardeningFigure> {
  const key = cellKeyFromPem(newCellKeyPem());
  const verifier = tokenVerifier({ publicKey: key.publicKey }, "uid");
  const body = JSON.stringify({ identity: {} });
  return alone("controllers, cell: token of the call", n, async () => {
    const token = await signCellToken(key, { sandboxUid: "uid", operation: "boot", body });
    (await verifier.verify(`Bearer ${token}`, "boot")).requireBody(Buffer.from(body));
  });
}

function proof(n: number): Promise<HardeningFigure> {
  return alone("controllers, cell: proof of the cell", n, () => {
    const prover = cellProver("uid");
    const nonce = randomBytes(24).toString("base64url");
    const jwk = { kty: "OKP", crv: "Ed25519", x: prover.publicKey };
    const text = Buffer.from(`ramet cell proof 1\nuid\n${nonce}`);
    const signature = Buffer.from(prover.prove(nonce), "base64url");
    if (!verify(null, text, createPublicKey({ key: jwk, format: "jwk" }), signature)) throw new Error("not proven");
  });
}

function coreLimit(n: number): Promise<HardeningFigure> {
  const run = promisify(execFile);
  return inTurns("Pod: no core dumps (prlimit)", n, {
    without: () => run("/bin/true"),
    with: () => run("prlimit", ["--core=1:1", "/bin/true"]),
  });
}

/** Runs the package's own test program, which needs Go. @returns undefined without Go */
async function linkWithoutRights(n: number): Promise<HardeningFigure | undefined> {
  const native = fileURLToPath(new URL("../../native", import.meta.url));
  const directory = await mkdtemp(join(tmpdir(), "ramet-hardening-"));
  const program = join(directory, "confine.test");
  try {
    const options = { cwd: native, env: { ...process.env, CGO_ENABLED: "0" } };
    try {
      execFileSync("go", ["test", "-c", "-o", program, "./link/internal/confine"], options);
    } catch {
      console.error("hardening: link is not measured, because Go cannot build its test");
      return undefined;
    }
    const env = { ...process.env, RAMET_CONFINE_COST: "1" };
    const times = Array.from({ length: n }, () => Number(execFileSync(program, { env, encoding: "utf8" })));
    return { what: "link: drop capabilities, seccomp", without: undefined, with: median(times) };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Requests of a user and of the controllers to a real API server. The policies apply in one of two namespaces. */
async function admission(n: number, signal: AbortSignal): Promise<HardeningFigure[]> {
  const plane = await startControlPlane();
  const client = new KubeClient(plane.connection);
  try {
    await installCrds(client, signal);
    for (const namespace of ["with", "without"]) await makeNamespace(client, namespace);
    for (const manifest of admissionPolicies()) {
      await client.resource(refOf(manifest)).apply(inNamespaceWith(manifest), { fieldManager: "bench" });
    }
    await untilInEffect(client);
    const sandbox = (namespace: string) =>
      dryRun(client, sandboxResources.sandboxes, {
        apiVersion: "agents.kruise.io/v1alpha1",
        kind: "Sandbox",
        metadata: { name: "a", namespace },
        spec: { template: { spec: podSpec } },
      });
    const pod = (namespace: string) =>
      dryRun(client, coreResources.pods, {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: "a", namespace, labels: { [labels.cell]: "true" } },
        spec: podSpec,
      });
    const turns = (what: string, create: (namespace: string) => Promise<unknown>) =>
      inTurns(what, n, { without: () => create("without"), with: () => create("with") });
    return [await turns("API server: admit the Sandbox", sandbox), await turns("API server: admit the Pod", pod)];
  } finally {
    await client.close();
    await plane.stop();
  }
}

function inNamespaceWith(manifest: Manifest): Manifest {
  if (manifest.kind !== "ValidatingAdmissionPolicyBinding") return manifest;
  const matchResources = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "with" } } };
  return { ...manifest, spec: { ...(manifest["spec"] as object), matchResources } };
}

async function untilInEffect(client: KubeClient): Promise<void> {
  const forbidden = {
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name: "forbidden", namespace: "with" },
    spec: { template: { spec: { ...podSpec, hostNetwork: true } } },
  };
  for (let tries = 0; tries < 300; tries++) {
    const refused = await dryRun(client, sandboxResources.sandboxes, forbidden).then(
      () => false,
      () => true,
    );
    if (refused) return;
    await systemDelay(100);
  }
  throw new Error("the admission policies do not take effect");
}

function systemDelay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => systemClock.schedule(milliseconds, resolve));
}

function dryRun(client: KubeClient, ref: ResourceRef, object: Manifest): Promise<unknown> {
  // The object of the answer has no resource version, as it is not stored.
  return client.resource(ref, (value) => value as KubeObject).create(object, { dryRun: true });
}

function refOf({ apiVersion, kind }: Manifest): ResourceRef {
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  return { group, version, plural: `${kind.toLowerCase()}s`.replace(/ys$/, "ies"), kind, namespaced: false };
}

type Work = () => unknown;

async function alone(what: string, n: number, work: Work): Promise<HardeningFigure> {
  const times = [];
  for (let turn = 0; turn <= n; turn++) times.push(await timeOf(work));
  return { what, without: undefined, with: median(times.slice(1)) };
}

async function inTurns(what: string, n: number, sides: Record<"with" | "without", Work>): Promise<HardeningFigure> {
  const times: Record<"with" | "without", number[]> = { with: [], without: [] };
  for (let turn = 0; turn <= n; turn++) {
    for (const side of turn % 2 === 0 ? (["with", "without"] as const) : (["without", "with"] as const)) {
      const taken = await timeOf(sides[side]);
      if (turn > 0) times[side].push(taken);
    }
  }
  return { what, with: median(times.with), without: median(times.without) };
}

async function timeOf(work: Work): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

function median(values: readonly number[]): number {
  return summary(values)?.p50 ?? 0;
}
