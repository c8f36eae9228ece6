/** An entry of {@link tarArchive}, with one character a byte. */
export interface TarEntryText {
  name: string;
  /** @default "0" */
  type?: string;
  linkName?: string;
  prefix?: string;
  content?: string;
  /** The records of a PAX header before it. */
  records?: readonly string[];
  /** The field of the size. @default that of the content */
  size?: string;
  /** @default that of PAX */
  magic?: string;
  /** Bytes of the header that are changed after its checksum. */
  change?: readonly (readonly [number, number])[];
}

/** An archive with exactly these entries, also those that no program would write. */
export function tarArchive(...entries: readonly TarEntryText[]): Buffer {
  const blocks = entries.flatMap((entry) => {
    const { records } = entry;
    return [...(records === undefined ? [] : [blocksOf(tarMeta("x", records.join("")))]), blocksOf(entry)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

/** A header that applies to the next entry: `x` and `g` with records, `L` and `K` with a long name. */
export function tarMeta(type: "x" | "g" | "L" | "K", content: string): TarEntryText {
  return { name: "header", type, content };
}

export function tarRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  let length = rest.length + 1;
  while (`${length}${rest}`.length !== length) length = `${length}${rest}`.length;
  return `${length}${rest}`;
}

function blocksOf({ name, type = "0", content = "", change = [], ...entry }: TarEntryText): Buffer {
  const { linkName = "", prefix = "", magic = "ustar\u000000", size } = entry;
  const block = Buffer.alloc(512);
  const put = (at: number, text: string) => block.write(text, at, "latin1");
  put(0, name);
  put(100, "0000644\0");
  put(108, "0000000\0");
  put(116, "0000000\0");
  put(124, size ?? `${content.length.toString(8).padStart(11, "0")}\0`);
  put(148, " ".repeat(8));
  put(156, type);
  put(157, linkName);
  put(257, magic);
  put(345, prefix);
  const sum = block.reduce((total, byte) => total + byte, 0);
  put(148, `${sum.toString(8).padStart(6, "0")}\0 `);
  for (const [at, byte] of change) block[at] = byte;
  const data = Buffer.alloc(Math.ceil(content.length / 512) * 512);
  data.write(content, "latin1");
  return Buffer.concat([block, data]);
}
