import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { join, dirname } from "node:path";
import type * as z from "zod";
import type { Log } from "../../../base/log.ts";
import { RametError, errnoOf } from "../../../base/errors.ts";
import { unlessMissing } from "../../files.ts";
import { dataPath, isId, type Kind } from "./records.ts";
import type { Trees } from "./trees.ts";
import { syncDirectories } from "../../../store/directory/durable.ts";

export interface CollectionOptions<R extends StoredRecord> {
  /** The driver's directory. */
  directory: string;
  kind: Kind;
  schema: z.ZodType<R>;
  trees: Trees;
  log: Log;
}

interface StoredRecord {
  id: string;
  createdAt: string;
}

/**
 * All volumes, all snapshots, or all groups. Each is a directory with its data and its record. It is made elsewhere and then renamed, and
 * renamed before it is removed, so it exists completely or not at all.
 */
export class Collection<R extends StoredRecord> {
  readonly #options: CollectionOptions<R>;

  constructor(options: CollectionOptions<R>) {
    this.#options = options;
  }

  /** Creates missing directories, and removes what an interrupted operation left. Nothing else may use the directory. */
  async open(): Promise<void> {
    for (const name of [this.#name, making, removing])
      await mkdir(join(this.#options.directory, name), { recursive: true, mode: 0o700 });
    for (const name of [making, removing]) await this.#sweep(name);
  }

  /** The directory of the data. */
  dataOf(id: string): string {
    return dataPath(this.#options.directory, this.#options.kind, id);
  }

  /** The record, or undefined if nothing has this id. */
  async find(id: string): Promise<R | undefined> {
    if (!isId(this.#options.kind, id)) return undefined;
    try {
      const text = await readFile(join(this.#path(this.#name, id), recordName), "utf8");
      return this.#options.schema.parse(JSON.parse(text));
    } catch (error) {
      if (errnoOf(error) === "ENOENT") return undefined;
      throw new Error(`the record of ${id} cannot be read`, { cause: error });
    }
  }

  /** @throws RametError `NotFound` */
  async get(id: string): Promise<R> {
    const record = await this.find(id);
    if (record !== undefined) return record;
    throw new RametError("NotFound", `The ${this.#options.kind} ${id} does not exist`);
  }

  /** All records, the oldest first. One that cannot be read is logged and left out. */
  async list(): Promise<R[]> {
    const ids = await readdir(join(this.#options.directory, this.#name));
    const found = await Promise.all(ids.map((id) => this.#findForList(id)));
    return found.filter((record) => record !== undefined).sort(byAge);
  }

  /** @param fill creates the data at this path, which does not exist yet */
  async create(record: R, fill: (data: string) => Promise<void>): Promise<void> {
    const path = this.#temporary(making, record.id);
    try {
      await mkdir(path, { mode: 0o700 });
      await fill(join(path, "data"));
      await replaceFile(join(path, recordName), JSON.stringify(record));
      await renameDurably(path, this.#path(this.#name, record.id));
    } catch (error) {
      await this.#options.trees.remove(path).catch((failure: unknown) => {
        this.#options.log.warn(
          { path, err: failure },
          "removing an incomplete directory failed; the next start removes it",
        );
      });
      throw error;
    }
  }

  async update(record: R): Promise<void> {
    await replaceFile(join(this.#path(this.#name, record.id), recordName), JSON.stringify(record));
  }

  /** Removing what does not exist is no error. */
  async remove(id: string): Promise<void> {
    if (!isId(this.#options.kind, id)) return;
    await renameDurably(this.#path(this.#name, id), this.#temporary(removing, id)).catch(unlessMissing);
    // With those of earlier attempts that failed.
    await this.#sweep(removing, id);
  }

  /** Removes the temporary directories of an id, or all. */
  async #sweep(parent: string, id?: string): Promise<void> {
    const { directory, kind, trees, log } = this.#options;
    for (const entry of await readdir(join(directory, parent))) {
      const [of = ""] = entry.split(".");
      if (!isId(kind, of) || (id !== undefined && of !== id)) continue;
      if (id === undefined) log.info({ id: of, was: parent }, "removing what an interrupted operation left");
      await trees.remove(join(directory, parent, entry));
    }
  }

  /** Another name for each attempt: the process of an earlier one may still be ending. */
  #temporary(parent: string, id: string): string {
    return this.#path(parent, `${id}.${randomBytes(8).toString("hex")}`);
  }

  get #name(): string {
    return `${this.#options.kind}s`;
  }

  #path(parent: string, id: string): string {
    return join(this.#options.directory, parent, id);
  }

  async #findForList(id: string): Promise<R | undefined> {
    try {
      return await this.find(id);
    } catch (error) {
      this.#options.log.error({ id, err: error }, "the list lacks an entry whose record cannot be read");
      return undefined;
    }
  }
}

const making = "making";
const removing = "removing";
const recordName = "record.json";

function byAge(a: StoredRecord, b: StoredRecord): number {
  return a.createdAt < b.createdAt ? -1 : a.createdAt > b.createdAt ? 1 : a.id < b.id ? -1 : 1;
}

/** Replaces a file: after a crash it has the old or the new content. */
async function replaceFile(path: string, text: string): Promise<void> {
  const next = `${path}.new`;
  await writeFile(next, text, { mode: 0o600, flush: true });
  await renameDurably(next, path);
}

/** Renames within one file system. When it returns, the rename survives a power failure. */
async function renameDurably(from: string, to: string): Promise<void> {
  await rename(from, to);
  await syncDirectories(new Set([dirname(from), dirname(to)]));
}
