/** An entry of an archive. Its texts have one character a byte (latin1), because names need not be UTF-8: print them by `shownName`. */
export interface TarEntry {
  path: string;
  linkPath: string;
  /** The names that a program reads which ignores the headers with long names. */
  shortPath: string;
  shortLinkPath: string;
  /** `0` file, `1` hard link, `2` symbolic link, `3` and `4` devices, `5` directory, `6` pipe, `7` contiguous file. */
  type: string;
  mode: number;
  uid: number;
  gid: number;
  sizeBytes: number;
  /** The records of PAX. */
  records: ReadonlyMap<string, string>;
}

/** Receives the content of an entry. */
export interface TarContent {
  add: (part: Buffer) => void;
  end: () => void;
}

export interface TarReaderOptions {
  onEntry: (entry: TarEntry) => TarContent | undefined;
  /** The error of an archive that is refused. */
  refuse: (why: string) => Error;
  /** The size of a header with long names. */
  mostHeaderBytes: number;
}

/**
 * Reads an archive in the formats ustar, PAX and GNU, without compression. Two programs must not read it differently, because one of
 * them checks what the other unpacks. So records of PAX are split by their length in bytes, and what is ambiguous is refused.
 */
export class TarReader {
  readonly #options: TarReaderOptions;
  readonly #block = Buffer.alloc(blockBytes);
  #filled = 0;
  #left = 0;
  #padding = 0;
  #content: TarContent | undefined;
  #isEnded = false;
  #records: ReadonlyMap<string, string> | undefined;
  #long: { L?: string; K?: string } = {};

  constructor(options: TarReaderOptions) {
    this.#options = options;
  }

  write(chunk: Buffer): void {
    for (let at = 0; at < chunk.length;) at += this.#read(chunk.subarray(at));
  }

  /** @throws the error of `refuse` if the archive is cut */
  end(): void {
    const isOpen = this.#records !== undefined || Object.keys(this.#long).length > 0;
    if (this.#filled + this.#left + this.#padding > 0 || isOpen) throw this.#options.refuse("it is cut");
  }

  /** @returns how many bytes were read */
  #read(bytes: Buffer): number {
    if (this.#left > 0) {
      const part = bytes.subarray(0, this.#left);
      this.#left -= part.length;
      this.#content?.add(part);
      if (this.#left === 0) this.#content?.end();
      return part.length;
    }
    if (this.#padding > 0) {
      const skipped = Math.min(bytes.length, this.#padding);
      this.#padding -= skipped;
      return skipped;
    }
    const copied = bytes.copy(this.#block, this.#filled);
    this.#filled += copied;
    if (this.#filled === blockBytes) this.#header(this.#block);
    return copied;
  }

  #header(block: Buffer): void {
    const { refuse } = this.#options;
    this.#filled = 0;
    if (block.every((byte) => byte === 0)) {
      this.#isEnded = true;
      return;
    }
    if (this.#isEnded) throw refuse("it has data after its end");
    const header = headerOf(block, refuse);
    const isMeta = metaTypes.has(header.type);
    if (!isMeta && !/[0-7]/.test(header.type))
      throw refuse(`it has an entry of the type ${JSON.stringify(header.type)}`);
    if (isMeta && header.sizeBytes > this.#options.mostHeaderBytes) throw refuse("it has a header that is too large");
    this.#content = isMeta ? this.#meta(header.type) : this.#options.onEntry(this.#entry(header));
    this.#left = header.sizeBytes;
    this.#padding = (blockBytes - (header.sizeBytes % blockBytes)) % blockBytes;
    if (this.#left === 0) this.#content?.end();
  }

  /** Collects a header that applies to the next entry. */
  #meta(type: string): TarContent {
    const parts: Buffer[] = [];
    const end = () => {
      const text = Buffer.concat(parts).toString("latin1");
      if (type === "L" || type === "K") this.#addLong(type, text);
      else this.#addRecords(type, recordsIn(text, this.#options.refuse));
    };
    return { add: (part) => parts.push(part), end };
  }

  #addLong(type: "L" | "K", text: string): void {
    if (this.#long[type] !== undefined) throw this.#options.refuse("an entry has two long names");
    this.#long[type] = untilZero(text);
  }

  #addRecords(type: string, records: ReadonlyMap<string, string>): void {
    const { refuse } = this.#options;
    // Programs differ in whether a global header applies to entries. Git writes one with a comment.
    if (type === "g" && [...records.keys()].some((key) => key !== "comment")) throw refuse("it has a global header");
    if (type === "g") return;
    if (this.#records !== undefined) throw refuse("an entry has two headers");
    this.#records = records;
  }

  #entry(header: TarEntry): TarEntry {
    const { refuse } = this.#options;
    const [records, long] = [this.#records ?? header.records, this.#long];
    if (this.#records !== undefined && Object.keys(long).length > 0)
      throw refuse("an entry has headers of two formats");
    this.#records = undefined;
    this.#long = {};
    const path = records.get("path") ?? long.L ?? header.path;
    const linkPath = records.get("linkpath") ?? long.K ?? header.linkPath;
    const entry = { ...header, path, linkPath, records };
    const problem = problemOf(entry);
    if (problem !== undefined) throw refuse(`${shownName(path.slice(0, 200))} ${problem}`);
    return entry;
  }
}

function problemOf({ type, path, sizeBytes, records }: TarEntry): string | undefined {
  const isFile = type === "0" || type === "7";
  // Programs that ignore the records use the size in the header.
  const isSized = Number(records.get("size") ?? sizeBytes) === sizeBytes && (isFile || sizeBytes === 0);
  if (!isSized) return "has an impossible size";
  return path === "" || (isFile && path.endsWith("/")) ? "is not the name of a file" : undefined;
}

/** A name as text. Bytes that are not UTF-8 are shown as `\xff`. */
export function shownName(name: string): string {
  const bytes = Buffer.from(name, "latin1");
  const text = bytes.toString("utf8");
  if (Buffer.from(text).equals(bytes)) return text;
  return name.replace(/[\x80-\xff]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16)}`);
}

const blockBytes = 512;
const metaTypes = new Set(["x", "g", "L", "K"]);
/** GNU tar writes times of incremental dumps where others have the first part of a name. */
const formats = { "ustar\u000000": 500, "ustar  \0": 345 };

function headerOf(block: Buffer, refuse: TarReaderOptions["refuse"]): TarEntry {
  const text = (from: number, to: number) => untilZero(block.toString("latin1", from, to));
  const number = (from: number, to: number) => {
    const value = numberIn(block.subarray(from, to));
    if (value === undefined) throw refuse("a header has a number that is not valid");
    return value;
  };
  const used = Object.entries(formats).find(([magic]) => magic === block.toString("latin1", 257, 265))?.[1];
  if (used === undefined) throw refuse("its format is not tar");
  const sum = block.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 0x20 : byte), 0);
  if (number(148, 156) !== sum) throw refuse("a header has a wrong checksum");
  if (block.subarray(used).some((byte) => byte !== 0)) throw refuse("a header has unknown fields");
  const prefix = text(345, 500);
  const path = prefix === "" ? text(0, 100) : `${prefix}/${text(0, 100)}`;
  const linkPath = text(157, 257);
  return {
    path,
    linkPath,
    shortPath: path,
    shortLinkPath: linkPath,
    type: block[156] === 0 ? "0" : block.toString("latin1", 156, 157),
    mode: number(100, 108),
    uid: number(108, 116),
    gid: number(116, 124),
    sizeBytes: number(124, 136),
    records: new Map(),
  };
}

/** In octal digits, or in bytes after one that is 0x80. */
function numberIn(field: Buffer): number | undefined {
  const [, octal] = /^[ \0]*([0-7]*)[ \0]*$/.exec(field.toString("latin1")) ?? [];
  const value =
    field[0] === 0x80 ? Number(`0x${field.toString("hex", 1)}`) : octal === undefined ? -1 : parseInt(`0${octal}`, 8);
  return value >= 0 && Number.isSafeInteger(value) ? value : undefined;
}

function recordsIn(text: string, refuse: TarReaderOptions["refuse"]): Map<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < text.length;) {
    const [start = "", length] = /^([1-9]\d{0,6}) /.exec(text.slice(at, at + 8)) ?? [];
    const end = at + Number(length);
    const equals = text.indexOf("=", at);
    const isWhole = end <= text.length && text[end - 1] === "\n" && equals > at + start.length && equals < end;
    if (!isWhole) throw refuse("a header has a record that is not valid");
    const [key, value] = [text.slice(at + start.length, equals), text.slice(equals + 1, end - 1)];
    if (records.has(key) || !isValidRecord(key, value))
      throw refuse(`a header has an invalid record ${shownName(key.slice(0, 200))}`);
    records.set(key, value);
    at = end;
  }
  return records;
}

/** GNU tar's own records rename and resize entries in a further way. */
function isValidRecord(key: string, value: string): boolean {
  if (key === "size") return /^\d{1,15}$/.test(value);
  if (key === "path" || key === "linkpath") return value !== "" && !value.includes("\0");
  return !key.startsWith("GNU.") && !key.includes("\0");
}

function untilZero(text: string): string {
  const end = text.indexOf("\0");
  return end < 0 ? text : text.slice(0, end);
}
