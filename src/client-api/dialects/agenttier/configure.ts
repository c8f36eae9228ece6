import { hash, randomUUID } from "node:crypto";
import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { RametError } from "../../../base/errors.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import type { ServiceParts } from "../../service/parts.ts";
import { type Ended, runAgent } from "./agent-process.ts";
import type { Configure } from "./schemas.ts";
import type { Sent } from "../../routes/sse.ts";
import { annotations, jsonAnnotation } from "../../../api/names/labels.ts";

/** As in AgentTier. */
const installMilliseconds = 15 * 60_000;
const logCharacters = 8 * 1024;

export interface Configuring {
  guest: GuestClient;
  body: Configure;
  signal: AbortSignal;
}

/**
 * Writes the files of an agent, installs it and notes its entrypoint on the Sandbox. The same files and the same installation are
 * skipped. An installation that fails changes nothing on the Sandbox.
 */
export async function* configure(
  { objects, clock }: Pick<ServiceParts, "objects" | "clock">,
  sandbox: Sandbox,
  configuring: Configuring,
): AsyncGenerator<Sent> {
  const before = agentConfigOf(sandbox);
  const installCommandHash = installHash(configuring.body);
  const skipped = before?.installHash === installCommandHash;
  const progress = { phase: "files" };
  try {
    const installed = skipped ? { exitCode: 0, log: before.installLog } : yield* install(configuring, progress);
    progress.phase = "status";
    const configuredAt = clock.now().toISOString();
    const entrypoint = configuring.body.entrypoint ?? before?.entrypoint ?? [];
    const { exitCode, log } = installed;
    if (exitCode === 0) {
      const config: AgentConfig = { entrypoint, installHash: installCommandHash, configuredAt, installLog: log };
      const noted = { [annotations.clientAgent]: JSON.stringify(config) };
      await objects.sandboxes.patch(sandbox, { metadata: { annotations: noted } });
    }
    const result = { installCommandHash, entrypoint, installExitCode: exitCode, skipped };
    yield { event: "result", data: { lastConfiguredAt: configuredAt, ...result } };
  } catch (error) {
    yield { event: "error", data: { phase: progress.phase, message: RametError.from(error).message } };
  }
}

/**
 * Returns the end of what the installation has printed, too.
 * @throws RametError if a file cannot be written or the installation cannot run to its end
 */
async function* install(
  { guest, body: { files = [], installCommand = [] }, signal }: Configuring,
  progress: { phase: string },
): AsyncGenerator<Sent, { exitCode: number; log: string }> {
  for (const file of files) {
    yield note(`[configure] uploading ${file.path}`);
    await guest.writeFile(file.path, contentOf(file), signal);
  }
  progress.phase = "install";
  if (installCommand.length === 0) return { exitCode: 0, log: "" };
  yield note(`[configure] running install: ${installCommand.join(" ")}`);
  const tag = `configure-${randomUUID()}`;
  const running = runAgent(guest, { argv: installCommand, tag, timeoutMilliseconds: installMilliseconds, signal });
  const { reason, message, exitCode, log } = yield* withLog(running);
  if (reason === "timeout") throw new RametError("Timeout", `install timed out after ${installMilliseconds / 1000} s`);
  if (message !== undefined) throw new RametError("InvalidArgument", message);
  return { exitCode, log };
}

async function* withLog(running: AsyncGenerator<Sent, Ended>): AsyncGenerator<Sent, Ended & { log: string }> {
  let log = "";
  try {
    let step = await running.next();
    for (; step.done !== true; step = await running.next()) {
      log = `${log}${(step.value.data as { data: string }).data}\n`.slice(-logCharacters);
      yield step.value;
    }
    return { ...step.value, log };
  } finally {
    // Ends the program if nobody reads any more.
    await running.return({ exitCode: -1, reason: "error" });
  }
}

function contentOf({ content, contentBase64 }: NonNullable<Configure["files"]>[number]): Buffer {
  return contentBase64 === undefined ? Buffer.from(content ?? "") : Buffer.from(contentBase64, "base64");
}

function note(data: string): Sent {
  return { event: "log", data: { stream: "stdout", data } };
}

/** The agent of a sandbox, as its annotation has it. */
const AgentConfig = z.object({
  entrypoint: z.array(z.string()),
  installHash: z.string(),
  configuredAt: z.string(),
  /** The end of what the installation has printed. */
  installLog: z.string(),
});
type AgentConfig = z.infer<typeof AgentConfig>;

/** Undefined for a sandbox that was not configured. */
export function agentConfigOf(sandbox: Sandbox): AgentConfig | undefined {
  return jsonAnnotation(sandbox, annotations.clientAgent, AgentConfig);
}

/** The digest of what an installation consists of, in whichever order its files are given. */
function installHash({ files = [], installCommand = [] }: Configure): string {
  const sorted = files
    .map(({ path, content, contentBase64 }) => [path, content, contentBase64])
    .toSorted(([a = ""], [b = ""]) => (a < b ? -1 : 1));
  return hash("sha256", JSON.stringify([installCommand, sorted]));
}
