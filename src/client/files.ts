import { type Answer, RametError } from "./answer.ts";
import { asUser, type Guest, type RequestOptions, unary } from "./connection.ts";
import { openStream } from "./messages.ts";

export interface FileOptions extends RequestOptions {
  /** A user of the image, who reads or owns the file. @default the sandbox's user */
  user?: string;
}

export interface ReadOptions extends FileOptions {
  /** A larger file is the error `OutOfRange`, but not with the format `stream`. @default 256 MiB */
  maxBytes?: number;
}

const mostFileBytes = 256 * 1024 * 1024;

export interface EntryInfo {
  name: string;
  type: "file" | "dir" | "symlink" | undefined;
  path: string;
  size: number;
  mode: number;
  permissions: string;
  owner: string;
  group: string;
  modifiedTime: Date | undefined;
  symlinkTarget: string | undefined;
}

export interface WriteEntry {
  path: string;
  data: Content;
}

export interface FilesystemEvent {
  /** The path below the watched directory. */
  name: string;
  type: "create" | "write" | "remove" | "rename" | "chmod";
}

export interface WatchOptions extends FileOptions {
  /** Whether the directories below it are watched too. @default false */
  recursive?: boolean;
  /** 0: until it is stopped. @default 60 s */
  timeoutMs?: number;
  /** Called at the end. @param error why it was not stopped */
  onExit?: (error?: Error) => void;
}

export interface WatchHandle {
  stop(): Promise<void>;
}

type Content = string | ArrayBuffer | Blob | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;

/** Reads and changes files of a sandbox, as E2B's client does. */
export class Files {
  readonly #guest: Guest;

  constructor(guest: Guest) {
    this.#guest = guest;
  }

  read(path: string, options?: ReadOptions & { format?: "text" }): Promise<string>;
  read(path: string, options: ReadOptions & { format: "bytes" }): Promise<Uint8Array>;
  read(path: string, options: ReadOptions & { format: "blob" }): Promise<Blob>;
  read(path: string, options: ReadOptions & { format: "stream" }): Promise<ReadableStream<Uint8Array>>;
  async read(
    path: string,
    { format = "text", user, maxBytes = mostFileBytes, ...options }: ReadOptions & { format?: string } = {},
  ): Promise<unknown> {
    const call = { method: "GET", headers: asUser(user), repeats: true, ...options };
    return this.#guest.send<unknown>(pathOf(path), call, async (answer) => {
      if (format === "stream") return streamOf(answer);
      if (format === "text") return answer.text(maxBytes);
      const bytes = await answer.collected(maxBytes);
      return format === "blob" ? new Blob([bytes]) : bytes;
    });
  }

  /** Writes a file, or several, and creates their parent directories. */
  write(path: string, data: Content, options?: FileOptions): Promise<EntryInfo>;
  write(files: readonly WriteEntry[], options?: FileOptions): Promise<EntryInfo[]>;
  async write(
    given: string | readonly WriteEntry[],
    data?: Content | FileOptions,
    options?: FileOptions,
  ): Promise<EntryInfo | EntryInfo[]> {
    if (typeof given === "string") return this.#write({ path: given, data: data as Content }, options);
    const written: EntryInfo[] = [];
    for (const file of given) written.push(await this.#write(file, data as FileOptions | undefined));
    return written;
  }

  async #write({ path, data }: WriteEntry, { user, ...options }: FileOptions = {}): Promise<EntryInfo> {
    const call = {
      method: "POST",
      body: data,
      headers: { "content-type": "application/octet-stream", ...asUser(user) },
      repeats: true,
      // It takes as long as the file is large.
      requestTimeoutMs: 0,
      ...options,
      ...(data instanceof ReadableStream && { duplex: "half" }),
    };
    const written = await this.#guest.send(pathOf(path), call, (answer) => answer.json<Entry | Entry[]>());
    return entryOf([written].flat()[0] ?? {});
  }

  async list(path: string, { depth = 1, ...options }: FileOptions & { depth?: number } = {}): Promise<EntryInfo[]> {
    const answer = await this.#call<{ entries?: Entry[] }>("ListDir", { path, depth }, options);
    return (answer.entries ?? []).map(entryOf);
  }

  async getInfo(path: string, options?: FileOptions): Promise<EntryInfo> {
    return entryOf((await this.#call<{ entry: Entry }>("Stat", { path }, options)).entry);
  }

  exists(path: string, options?: FileOptions): Promise<boolean> {
    return unlessCode("NotFound", this.getInfo(path, options));
  }

  /** @returns false if it exists already */
  makeDir(path: string, options?: FileOptions): Promise<boolean> {
    return unlessCode("AlreadyExists", this.#call("MakeDir", { path }, options));
  }

  async rename(source: string, destination: string, options?: FileOptions): Promise<EntryInfo> {
    return entryOf((await this.#call<{ entry: Entry }>("Move", { source, destination }, options)).entry);
  }

  async remove(path: string, options?: FileOptions): Promise<void> {
    await this.#call("Remove", { path }, options);
  }

  /** Reports what changes in a directory, until it is stopped, or after `timeoutMs`. */
  async watchDir(
    path: string,
    onEvent: (event: FilesystemEvent) => void | Promise<void>,
    { recursive = false, onExit, ...options }: WatchOptions = {},
  ): Promise<WatchHandle> {
    const disconnect = new AbortController();
    const streaming = { ...options, disconnect };
    const messages = await openStream(this.#guest, "filesystem.Filesystem/WatchDir", { path, recursive }, streaming);
    // The first message tells that it has begun, or why not.
    await messages.next();
    const follow = async () => {
      for await (const { filesystem } of messages) {
        const type = filesystem && eventTypes[filesystem.type];
        if (type !== undefined) await onEvent({ name: filesystem?.name ?? "", type });
      }
    };
    let isStopped = false;
    follow().then(
      () => onExit?.(),
      (error: unknown) => onExit?.(isStopped ? undefined : (error as Error)),
    );
    return {
      stop: () => {
        isStopped = true;
        disconnect.abort();
        return Promise.resolve();
      },
    };
  }

  #call<T>(method: string, message: object, options?: FileOptions): Promise<T> {
    return unary(this.#guest, `filesystem.Filesystem/${method}`, message, options);
  }
}

interface Entry {
  name?: string;
  type?: string;
  path?: string;
  size?: string | number;
  mode?: number;
  permissions?: string;
  owner?: string;
  group?: string;
  modifiedTime?: string;
  symlinkTarget?: string;
}

function entryOf(entry: Entry): EntryInfo {
  const { name = "", path = "", size = 0, mode = 0, permissions = "", owner = "", group = "" } = entry;
  const { modifiedTime, symlinkTarget, type = "" } = entry;
  return {
    name,
    type: types[type],
    path,
    size: Number(size),
    mode,
    permissions,
    owner,
    group,
    modifiedTime: modifiedTime === undefined ? undefined : new Date(modifiedTime),
    symlinkTarget,
  };
}

const eventTypes: Record<string, FilesystemEvent["type"]> = {
  EVENT_TYPE_CREATE: "create",
  EVENT_TYPE_WRITE: "write",
  EVENT_TYPE_REMOVE: "remove",
  EVENT_TYPE_RENAME: "rename",
  EVENT_TYPE_CHMOD: "chmod",
};

/** As the guest has them in messages, and in the answer to an upload. */
const types: Record<string, EntryInfo["type"]> = {
  FILE_TYPE_FILE: "file",
  FILE_TYPE_DIRECTORY: "dir",
  FILE_TYPE_SYMLINK: "symlink",
  file: "file",
  dir: "dir",
};

function pathOf(path: string): string {
  return `/files?${new URLSearchParams({ path }).toString()}`;
}

function streamOf(answer: Answer): ReadableStream<Uint8Array> {
  const bytes = answer.bytes();
  return new ReadableStream({
    pull: async (controller) => {
      const next = await bytes.next();
      if (next.done === true) controller.close();
      else controller.enqueue(next.value);
    },
    cancel: async () => {
      await bytes.return(undefined);
    },
  });
}

async function unlessCode(code: string, work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    if (error instanceof RametError && error.code === code) return false;
    throw error;
  }
}
