import { asUser, type Guest, RametError, type RequestOptions, unary } from "./connection.ts";

export interface FileOptions extends RequestOptions {
  /** A user of the image, who reads or owns the file. @default the sandbox's user */
  user?: string;
}

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

type Content = string | ArrayBuffer | Blob | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;

/** Reads and changes files of a sandbox, as E2B's client does. */
export class Files {
  readonly #guest: Guest;

  constructor(guest: Guest) {
    this.#guest = guest;
  }

  read(path: string, options?: FileOptions & { format?: "text" }): Promise<string>;
  read(path: string, options: FileOptions & { format: "bytes" }): Promise<Uint8Array>;
  read(path: string, options: FileOptions & { format: "blob" }): Promise<Blob>;
  read(path: string, options: FileOptions & { format: "stream" }): Promise<ReadableStream<Uint8Array>>;
  async read(
    path: string,
    { format = "text", user, ...options }: FileOptions & { format?: string } = {},
  ): Promise<unknown> {
    const call = { method: "GET", headers: asUser(user), repeats: true, ...options };
    const response = await this.#guest.send(pathOf(path), call);
    if (format === "stream") return response.body;
    if (format === "blob") return response.blob();
    return format === "bytes" ? new Uint8Array(await response.arrayBuffer()) : response.text();
  }

  /** Writes a file, and creates its parent directories. */
  async write(path: string, data: Content, { user, ...options }: FileOptions = {}): Promise<EntryInfo> {
    const isStream = data instanceof ReadableStream;
    const response = await this.#guest.send(pathOf(path), {
      method: "POST",
      body: data,
      headers: { "content-type": "application/octet-stream", ...asUser(user) },
      // A file can be written again, but a stream can be read once.
      repeats: !isStream,
      // It takes as long as the file is large.
      requestTimeoutMs: 0,
      ...options,
      ...(isStream && { duplex: "half" }),
    });
    const [written = {}] = [(await response.json()) as Entry | Entry[]].flat();
    return entryOf(written);
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

async function unlessCode(code: string, work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    if (error instanceof RametError && error.code === code) return false;
    throw error;
  }
}
