import type { ApiKey } from "../../api/kinds/api-key.ts";
import { type Io, printLine, writeAll } from "../io.ts";

/** `table` prints only the key. */
export type KeyOutput = "table" | "json";

/** Prints a new key: the key to stdout, and what to know about it to stderr. */
export async function printKey(
  io: Io,
  { key, text, output }: { key: ApiKey; text: string; output: KeyOutput },
): Promise<void> {
  const { name, namespace } = key.metadata;
  const { serviceAccountName } = key.spec;
  const shown = { name, namespace, serviceAccountName, key: text };
  await writeAll(io.stdout, output === "json" ? `${JSON.stringify(shown, undefined, 2)}\n` : `${text}\n`);
  printLine(
    io.stderr,
    `The key ${name} acts as the service account ${serviceAccountName} in namespace ${namespace}. Keep it: it cannot be shown again.`,
  );
}
