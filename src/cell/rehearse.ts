import { once } from "node:events";
import { mkdir, rm } from "node:fs/promises";
import { type IncomingMessage, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type * as z from "zod";
import type { CellConfig, RestoreRequest } from "../api/wire/cell-api.ts";
import { systemClock as clock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { cellProver, proofHeaders, proofPath } from "./client/cell-proof.ts";
import { cellKeyFromPem, newCellKeyPem, signCellToken } from "./client/cell-token.ts";
import { Cell } from "./lifecycle/cell.ts";
import { spawnLink } from "./network/link.ts";
import type { EarlyEnvironment } from "./sandbox/sandbox-resources.ts";
import { EntrypointLog } from "./sandbox/entrypoint-log.ts";
import { Sandbox } from "./sandbox/sandbox.ts";
import { cellServer } from "./server/server.ts";
import { keepStateFile } from "./server/state-file.ts";
import { tokenVerifier } from "./server/token-verifier.ts";
import { type CellSetting, cellSetting } from "./setting/cell-setting.ts";
import { withImageUser } from "./setting/image-user.ts";

const sandboxUid = "rehearsal";

/**
 * Runs what the start of every clone runs, with made-up values and without gVisor. A spare cell does so while it waits: most of the
 * CPU time of a cell's start is the first run of its code, and takes a tenth of it when the code has run before. Calls fail where a
 * sandbox would begin.
 * @param parent of the files, which are removed
 * @returns the statuses and paths of the calls
 */
export async function rehearse(parent: string): Promise<string[]> {
  const directory = join(parent, "rehearsal");
  await mkdir(directory, { recursive: true });
  try {
    const key = cellKeyFromPem(newCellKeyPem());
    const setting = await withImageUser(cellSetting(settingIn(directory, key.publicKey)));
    const log = await EntrypointLog.open(join(directory, "log"), clock);
    const cell = new Cell({ setting, early: nothing(setting), log, clock, report: () => undefined });
    keepStateFile(cell, join(directory, "state.json"), clock);
    const verifier = tokenVerifier(setting.config, sandboxUid, clock);
    const server = cellServer({ cell, verifier, prover: cellProver(sandboxUid), logPath: log.path });
    await once(server.listen(0, "127.0.0.1"), "listening");
    await Promise.all([cell.start().catch(() => undefined), rehearseEngine(setting, log)]);
    const { port } = server.address() as AddressInfo;
    const proven = await call(port, { path: proofPath, headers: { [proofHeaders.nonce]: "0".repeat(32) } });
    const body = JSON.stringify(restoreRequest(directory));
    const authorization = `Bearer ${await signCellToken(key, { sandboxUid, operation: "restore", body })}`;
    const restored = await call(port, { path: "/v1/restore", headers: { authorization }, body });
    server.close();
    await log.close();
    return [proven, restored];
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** An environment that cannot be prepared. */
function nothing({ paths }: CellSetting): EarlyEnvironment {
  const layer = Promise.reject(new RametError("Canceled", "this is a rehearsal"));
  layer.catch(() => undefined);
  return { link: spawnLink({ binary: paths.link }), layer };
}

/** As for a sandbox that waits for a checkpoint, with a program that does nothing. */
async function rehearseEngine(setting: CellSetting, log: EntrypointLog): Promise<void> {
  const { directory } = setting.paths;
  const options = { setting, log, netnsPath: "/proc/self/ns/net", rootPath: directory };
  const sandbox = await Sandbox.createWaiting({ ...options, cgroup: undefined, container: undefined });
  await sandbox.run({ imagePath: directory, background: false });
  await sandbox.destroy();
}

function settingIn(directory: string, publicKey: string): NodeJS.ProcessEnv {
  const config: z.input<typeof CellConfig> = {
    v: 1,
    sandbox: { namespace: "default", name: "rehearsal", uid: sandboxUid },
    container: {
      name: "main",
      image: "rehearsal",
      command: ["sleep", "infinity"],
      env: [{ name: "NAME", value: "value" }],
      resources: { memoryBytes: 2 ** 30, cpuMillis: 1_000 },
    },
    rootPath: directory,
    templateDigest: "rehearsal",
    start: "wait",
    restores: "memory",
    publicKey,
  };
  return {
    RAMET_CELL: JSON.stringify(config),
    RAMET_CELL_DIRECTORY: directory,
    RAMET_CELL_LISTEN: "127.0.0.1",
    RAMET_RUNSC: "true",
    RAMET_GUEST: "/dev/null",
    RAMET_LINK: "false",
  };
}

function restoreRequest(path: string): RestoreRequest {
  const identity = {
    sandboxId: sandboxUid,
    hostname: "rehearsal",
    accessToken: "none",
    environment: { NAME: "value" },
  };
  const expiresAt = clock.now().getTime() + 60_000;
  const checkpoint = {
    namespace: "default",
    checkpointId: "rehearsal",
    path,
    manifestDigest: `sha256:${"0".repeat(64)}`,
  };
  return {
    identity,
    grant: { driver: "directory", access: "read", expiresAt, ...checkpoint },
    contents: ["memory", "filesystem"],
  };
}

async function call(
  port: number,
  { path, headers, body }: { path: string; headers: Record<string, string>; body?: string },
): Promise<string> {
  const method = body === undefined ? "GET" : "POST";
  const request = httpRequest({ host: "127.0.0.1", port, path, method, headers, agent: false }).end(body);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  response.resume();
  await once(response, "end");
  return `${response.statusCode ?? 0} ${path}`;
}
