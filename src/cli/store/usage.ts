import type { StoreUsage } from "../../store/checkpoint-store.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, type Io } from "../io.ts";
import { size } from "../output/size.ts";
import { table } from "../output/table.ts";
import { openStore, type WhichStore } from "./open-store.ts";

export interface StoreUsageOptions extends WhichStore {
  output: "table" | "json";
}

/** `ramet store usage`. */
export async function storeUsage(io: Io, options: StoreUsageOptions): Promise<number> {
  const { store, root, namespaces } = await openStore(io, options);
  const rows: ({ namespace: string } & StoreUsage)[] = [];
  for (const namespace of namespaces) rows.push({ namespace, ...(await store.usage(namespace)) });
  if (options.output === "json") {
    const cluster = await store.owner();
    printLine(
      io.stdout,
      JSON.stringify({ path: root, ...(cluster !== undefined && { cluster }), namespaces: rows }, undefined, 2),
    );
  } else {
    io.stdout.write(table(["NAMESPACE", "CHECKPOINTS", "CONTENTS", "SIZE", "SHARED", "STAGING"], rows.map(cells)));
  }
  return exitCodes.ok;
}

function cells({ namespace, ...usage }: { namespace: string } & StoreUsage): string[] {
  const { checkpoints, contents, contentBytes, sharedBytes, stagingBytes } = usage;
  return [namespace, `${checkpoints}`, `${contents}`, size(contentBytes), size(sharedBytes), size(stagingBytes)];
}
