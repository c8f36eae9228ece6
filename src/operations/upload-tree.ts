import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { type Checkpoint, checkpointKind } from "../api/kinds/checkpoint.ts";
import { type Sandbox, sandboxKind } from "../api/kinds/sandbox.ts";
import { annotations, labels } from "../api/names/labels.ts";
import { TreeCheck, treeMetadata, treePurpose } from "../api/tree/tree-check.ts";
import type { Clock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { awaitSandbox } from "./await-sandbox.ts";
import { untilCaptured } from "./capture.ts";
import { type Objects, type Wait, objectOf } from "./objects.ts";

/** The time limit applies to the start of the sandbox, and then to the capture. */
export interface TreeUpload extends Wait {
  namespace: string;
  /** Identifies the content: 64 hex digits. */
  digest: string;
  /** The source of the sandbox that gets the archive. Any sandbox can hold a file. */
  source: { annotations?: Record<string, string>; spec: object };
  /** Further annotations of the Checkpoint. */
  annotations?: Record<string, string>;
  /** An archive in the format of tar, without compression. */
  archive: AsyncIterable<Buffer>;
  write: (sandbox: Sandbox, archive: Readable) => Promise<void>;
  read: (at: { namespace: string; name: string }) => Promise<Checkpoint>;
  clock: Clock;
}

/**
 * Stores a directory tree as the Checkpoint of a sandbox that has its archive, and waits until that has succeeded. The sandbox is deleted
 * at its end even if nobody is left to do that.
 * @throws RametError `InvalidArgument` for an archive that is not valid or too large; `Timeout`; the error of the sandbox or the capture
 */
export async function uploadTree({ sandboxes, checkpoints }: Objects, upload: TreeUpload): Promise<void> {
  const { namespace, digest, source, clock, timeoutMilliseconds, signal } = upload;
  const wait = { timeoutMilliseconds, signal };
  const shutdownTime = new Date(clock.now().getTime() + longestMilliseconds).toISOString();
  const metadata = {
    namespace,
    generateName: "tree-",
    labels: { [labels.purpose]: treePurpose },
    annotations: { [annotations.sandboxPriority]: "100", ...source.annotations },
  };
  const { apiVersion } = sandboxKind;
  const carrier = await sandboxes.create(
    { apiVersion, kind: "Sandbox", metadata, spec: { ...source.spec, shutdownTime } },
    signal,
  );
  try {
    const serving = objectOf(await awaitSandbox({ sandboxes }, carrier, { ...wait, isNew: true }));
    const sha256 = await write(serving, upload);
    const tree = treeMetadata({ namespace, digest, sha256 });
    const manifest = {
      apiVersion: checkpointKind.apiVersion,
      kind: "Checkpoint",
      metadata: { ...tree, annotations: { ...tree.annotations, ...upload.annotations } },
      spec: { sandboxName: carrier.metadata.name, persistentContents: ["filesystem" as const], keepRunning: true },
    };
    const created = await checkpoints.create(manifest, signal).catch((error: unknown) => {
      // Another client has uploaded the same tree meanwhile.
      if (RametError.from(error).code === "AlreadyExists") return upload.read(tree);
      throw error;
    });
    try {
      objectOf(await untilCaptured({ checkpoints }, created, wait));
    } catch (error) {
      await checkpoints.remove(created).catch(() => undefined);
      throw error;
    }
  } finally {
    await sandboxes.remove(carrier).catch(() => undefined);
  }
}

/** Longer than an upload may take. */
const longestMilliseconds = 7_200_000;

/** Writes the archive, and checks it meanwhile. @returns its SHA-256 */
async function write(sandbox: Sandbox, { archive, write: send }: TreeUpload): Promise<string> {
  const check = new TreeCheck();
  const hash = createHash("sha256");
  let problem: unknown;
  async function* checked(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of archive) {
        check.add(chunk);
        hash.update(chunk);
        yield chunk;
      }
      check.end();
    } catch (cause) {
      const { message } = RametError.from(cause);
      const unreadable = () => new RametError("InvalidArgument", `The archive cannot be read: ${message}`, { cause });
      problem = cause instanceof RametError ? cause : unreadable();
      throw cause;
    }
  }
  await send(sandbox, Readable.from(checked())).catch((error: unknown) => {
    // The guest only sees that the upload broke off.
    throw problem ?? error;
  });
  return hash.digest("hex");
}
