import { cp, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CheckpointPart, type PartContents } from "../../../src/api/kinds/checkpoint.ts";
import { RametError } from "../../../src/base/errors.ts";
import type { Backend, Capture, CheckpointName, CloneRequest } from "../../../src/backends/backend.ts";
import type { Started } from "../../../src/backends/runtime.ts";
import type { SandboxRef } from "../../../src/backends/runtime.ts";

export interface FileCopyOptions {
  /** Holds `sandboxes/<uid>` and `checkpoints/<namespace>/<id>`. */
  root: string;
  /** @default files */
  contents?: PartContents;
}

/** How a test changes the behaviour of a sandbox of this backend. */
export interface FileCopyBehaviour {
  /** A capture waits for this after it has started. */
  gate?: Promise<unknown>;
  /** Called when a capture has started. */
  onStart?: () => void;
  /** Makes the next capture fail after it has started. */
  error?: RametError;
}

/**
 * Copies directories: a sandbox is `sandboxes/<uid>`, and runs while its directory exists. Stores data on the test's disk.
 * Runs no process, so it does not test memory.
 */
export class FileCopyBackend implements Backend {
  readonly name = "file-copy";
  /** By the sandbox's UID. */
  readonly behaviours = new Map<string, FileCopyBehaviour>();
  readonly #root: string;
  readonly #contents: PartContents;
  readonly #capturing = new Map<string, string>();
  readonly #restored = new Map<string, Started>();

  constructor({ root, contents = ["filesystem"] }: FileCopyOptions) {
    this.#root = root;
    this.#contents = contents;
  }

  directoryOf(sandboxUid: string): string {
    return join(this.#root, "sandboxes", sandboxUid);
  }

  probe() {
    return Promise.resolve({ contents: [this.#contents] });
  }

  async capture({ name, source, contents }: { name: CheckpointName; source: SandboxRef; contents: PartContents }) {
    const found = await this.#find(name);
    if (found !== undefined) return found;
    const { checkpointId } = name;
    const other = this.#capturing.get(source.uid);
    if (other !== undefined) {
      throw new RametError("Conflict", `cannot capture ${source.name}: ${other} is being captured`, {
        retryable: true,
      });
    }
    this.#capturing.set(source.uid, checkpointId);
    try {
      await this.#write(name, source, contents);
    } finally {
      this.#capturing.delete(source.uid);
    }
    return this.whenReady(name);
  }

  async whenReady(name: CheckpointName): Promise<Capture> {
    const found = await this.#find(name);
    if (found !== undefined) return found;
    throw new RametError("CheckpointLost", `there is no copy of ${name.checkpointId}`);
  }

  async clone({ name, part, target }: CloneRequest): Promise<Started> {
    if (part.handle !== (await this.whenReady(name)).parts[0]?.handle) {
      throw new RametError("CheckpointLost", `the copy of ${name.checkpointId} is another one`);
    }
    const directory = this.directoryOf(target.uid);
    await rm(directory, { recursive: true, force: true });
    await cp(join(this.#path(name), "files"), directory, { recursive: true });
    return this.#contents.includes("filesystem") ? { generation: 1, phases: {} } : { phases: {} };
  }

  async restoreInPlace({ request, ...clone }: CloneRequest & { request: string }): Promise<Started> {
    const before = this.#restored.get(`${clone.target.uid}/${request}`);
    if (before !== undefined) return before;
    const started = await this.clone(clone);
    this.#restored.set(`${clone.target.uid}/${request}`, started);
    return started;
  }

  untilLoaded(): Promise<void> {
    return Promise.resolve();
  }

  async remove(name: CheckpointName): Promise<void> {
    await rm(this.#path(name), { recursive: true, force: true });
  }

  async #write(name: CheckpointName, source: SandboxRef, contents: PartContents): Promise<void> {
    const behaviour = this.behaviours.get(source.uid) ?? {};
    const draft = `${this.#path(name)}.draft`;
    await rm(draft, { recursive: true, force: true });
    await mkdir(draft, { recursive: true });
    const cutAt = new Date().toISOString();
    await cp(this.directoryOf(source.uid), join(draft, "files"), { recursive: true }).catch((error: unknown) => {
      const message = `cannot reach ${source.name}: its directory does not exist`;
      throw new RametError("Unavailable", message, { retryable: true, cause: error });
    });
    behaviour.onStart?.();
    await behaviour.gate;
    const { error } = behaviour;
    delete behaviour.error;
    if (error !== undefined) throw error;
    const part: CheckpointPart = {
      backend: this.name,
      handle: `${name.checkpointId}/${cutAt}`,
      contents,
      cutAt,
      readyAt: new Date().toISOString(),
      sizeBytes: await sizeOf(join(draft, "files")),
      consistency: "crash",
    };
    await writeFile(join(draft, "part.json"), JSON.stringify(part));
    // The rename publishes the copy as a whole.
    await rename(draft, this.#path(name));
  }

  async #find(name: CheckpointName): Promise<Capture | undefined> {
    const text = await readFile(join(this.#path(name), "part.json"), "utf8").catch(() => undefined);
    if (text === undefined) return undefined;
    return { parts: [CheckpointPart.parse(JSON.parse(text))], isDurable: true };
  }

  #path({ namespace, checkpointId }: CheckpointName): string {
    return join(this.#root, "checkpoints", namespace, checkpointId);
  }
}

async function sizeOf(directory: string): Promise<number> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(files.map(({ parentPath, name }) => stat(join(parentPath, name))));
  return sizes.reduce((sum, { size }) => sum + size, 0);
}
