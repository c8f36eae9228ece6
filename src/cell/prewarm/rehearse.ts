import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { connect, type AddressInfo } from "node:net";
import { join } from "node:path";
import {
  BootRequest,
  CheckpointRequest,
  RestoreRequest,
  RestoreInPlaceCall,
  type CellConfig,
  type ContainerSpec,
} from "../../api/cell/cell-api.ts";
import type { Contents } from "../../api/schema/contents.ts";
import type { Grant } from "../../api/cell/grant.ts";
import { makeNamespaceDirectory } from "../../store/directory/namespace-directory.ts";
import { openForWrite } from "../../store/open.ts";
import { cellSetting } from "../setting/cell-setting.ts";
import { Cell } from "../lifecycle/cell.ts";
import { callGuest, textOf } from "../client/guest-http.ts";
import { signCellToken } from "../client/cell-token.ts";
import { GuestHealth, GuestInitResult } from "../client/guest-control.ts";
import { EntrypointLog } from "../sandbox/entrypoint-log.ts";
import { LinkAnswer, LinkEvent } from "../network/link-wire.ts";
import { openRestoreSource } from "../checkpoint/restore-source.ts";
import { runProgram } from "../../base/run-program.ts";
import { cellServer } from "../server/server.ts";
import { tokenVerifier } from "../server/token-verifier.ts";

/**
 * Goes once through what every start, cut and restore goes through, on samples: parsing, a signed call, a program, a
 * checkpoint that is kept and opened. A spare cell has nothing else to do, and what V8 has compiled then it need not
 * compile between a Pod and its sandbox. No sandbox is made, and nothing stays of it in `directory`.
 */
export async function rehearse(directory: string): Promise<void> {
  const { privateKey } = generateKeyPairSync("ed25519");
  const publicKey = privateKey.export({ format: "jwk" }).x ?? "";
  const setting = cellSetting({ RAMET_CELL: JSON.stringify(sampleConfig(publicKey)), RAMET_IMAGE_CONFIG: "{}" });
  for (const schema of wire) schema.safeParse({});
  const scratch = join(directory, "rehearsal");
  const log = await EntrypointLog.open(scratch);
  const cell = new Cell({ setting, log, report: () => undefined });
  const server = cellServer({ cell, verifier: tokenVerifier({ publicKey }, sampleUid), logPath: log.path });
  server.listen(0, "127.0.0.1");
  try {
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    for (const body of [undefined, "{}"]) {
      const operation = body === undefined ? "state" : "restore";
      const token = await signCellToken({ privateKey, publicKey }, { sandboxUid: sampleUid, operation, body });
      const headers = { authorization: `Bearer ${token}` };
      const answer = await callGuest(() => Promise.resolve(connect(port, "127.0.0.1")), {
        ...(body === undefined ? { method: "GET" } : { method: "POST", body: Buffer.from(body) }),
        path: `/v1/${operation}`,
        headers,
      });
      await textOf(answer);
    }
    await runProgram({ program: "true", args: [], timeoutMilliseconds: 1_000 });
    await rehearseStore(scratch);
  } finally {
    server.closeAllConnections();
    server.close();
    await log.close();
    await rm(scratch, { recursive: true, force: true });
  }
}

/** A checkpoint of nothing, in a store of its own. */
async function rehearseStore(scratch: string): Promise<void> {
  const path = join(scratch, "store");
  await mkdir(path, { recursive: true });
  await makeNamespaceDirectory(scratch, path, "default");
  const expiresAt = Date.now() + 60_000;
  const grant = { driver: "directory", namespace: "default", checkpointId: "sample", path, expiresAt } as const;
  const engine = { version: "sample", architecture: "sample", guest: `sha256:${"0".repeat(64)}` };
  const session = await openForWrite({ ...grant, access: "write" });
  await writeFile(join(session.stagingPath, "pages.img"), "sample");
  const { manifestDigest } = await session.publish({
    contents: everything,
    cutAt: new Date().toISOString(),
    engine: { name: "gvisor", platform: "sample", ...engine },
    templateDigest: "sample",
    container: sampleContainer,
    image: { name: "sample" },
    consistency: "atomic",
  });
  await session.abandon();
  const read: Grant = { ...grant, access: "read", manifestDigest };
  const source = await openRestoreSource(
    { identity: sampleIdentity, grant: read, contents: everything },
    { directory: scratch, build: () => Promise.resolve(engine), report: () => undefined },
  );
  source.release();
}

const wire = [
  BootRequest,
  RestoreRequest,
  RestoreInPlaceCall,
  CheckpointRequest,
  GuestHealth,
  GuestInitResult,
  LinkEvent,
  LinkAnswer,
];

const sampleUid = "00000000-0000-0000-0000-000000000000";
const sampleIdentity = { sandboxId: "default--sample", hostname: "sample", accessToken: "sample", environment: {} };
const everything: Contents = ["memory", "filesystem"];

const sampleContainer: ContainerSpec = {
  name: "main",
  image: "sample",
  command: ["sh"],
  args: ["-c", "true"],
  env: [{ name: "A", value: "$(B)" }],
  user: { uid: 0, gid: 0 },
  ports: [80],
  readOnlyRoot: false,
  mounts: [{ source: "/sample", target: "/sample", readOnly: true }],
  resources: { memoryBytes: 1, cpuMillis: 1 },
};

function sampleConfig(publicKey: string): Partial<CellConfig> {
  return {
    v: 1,
    sandbox: { namespace: "default", name: "sample", uid: sampleUid },
    container: sampleContainer,
    rootPath: "/",
    templateDigest: "sample",
    start: "wait",
    graceSeconds: 1,
    publicKey,
  };
}
