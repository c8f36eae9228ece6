import { rename } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { csiBackend } from "../../../src/backends/csi/csi-backend.ts";
import type { Backend } from "../../../src/backends/backend.ts";
import type { SandboxRef } from "../../../src/backends/runtime.ts";
import { snapshotsIn } from "../../../src/kube/volumes/snapshots.ts";
import { makeNamespace } from "../../setup/namespace.ts";
import { VolumeClaims } from "../../setup/volume-claims.ts";
import { startVolumeCluster, type VolumeCluster } from "../../setup/volume-cluster.ts";
import { testBackend } from "./backend-contract.ts";

/** The real backend, driver and snapshot-controller. A sandbox is its claim: no Pod runs, so it runs while the claim is bound. */
const namespace = "contract";
/** A capture takes less than a second. The test of a failed one waits for this. */
const captureMilliseconds = 15_000;
let cluster: VolumeCluster;
let claims: VolumeClaims;
let backend: Backend;
let count = 0;

beforeAll(async () => {
  cluster = await startVolumeCluster();
  await makeNamespace(cluster.client, namespace);
  claims = new VolumeClaims(cluster, namespace);
  backend = csiBackend({ client: cluster.client, captureMilliseconds });
});
afterAll(() => cluster.stop());
afterEach(resume);

function newRef(): SandboxRef {
  const name = `s${++count}`;
  return { namespace, name, uid: `uid-${name}`, podIp: "", claims: [{ volume: "data", claim: claimOf({ name }) }] };
}
const claimOf = ({ name }: Pick<SandboxRef, "name">): string => `data-${name}`;

function resume(): void {
  process.kill(cluster.driver.process.pid, "SIGCONT");
}

/** Where the driver makes a volume or a snapshot before it renames it. */
const making = (): string => join(cluster.driver.directory, "making");

testBackend(() => ({
  backend,
  restoresInPlace: false,
  source: async () => {
    const sandbox = newRef();
    await claims.create(claimOf(sandbox));
    await claims.untilBound(claimOf(sandbox));
    return sandbox;
  },
  target: () => Promise.resolve(newRef()),
  prepare: async ({ name, parts, target }) => {
    for (const part of parts) {
      const spec = { resources: { requests: { storage: "1Mi" } } };
      const filled = await backend.fillClaim?.({ name, part, spec });
      await claims.create(claimOf(target), filled);
      await claims.untilBound(claimOf(target));
    }
  },
  unreachable: async () => {
    const sandbox = newRef();
    await claims.create(claimOf(sandbox), { storageClassName: "" });
    return sandbox;
  },
  isRunning: (sandbox) => claims.isBound(claimOf(sandbox)),
  write: (sandbox, text) => claims.write(claimOf(sandbox), text),
  read: (sandbox) => claims.read(claimOf(sandbox)),
  hold: (sandbox) => {
    process.kill(cluster.driver.process.pid, "SIGSTOP");
    return { started: () => untilCreated(sandbox), release: resume };
  },
  breakCapture: () => rename(making(), `${making()}.away`),
  mend: () => rename(`${making()}.away`, making()),
}));

async function untilCreated(sandbox: SandboxRef): Promise<void> {
  await expect
    .poll(async () => {
      const { items } = await snapshotsIn(cluster.client).list({ namespace });
      return items.map(({ spec }) => spec?.source.persistentVolumeClaimName);
    })
    .toContain(claimOf(sandbox));
}
