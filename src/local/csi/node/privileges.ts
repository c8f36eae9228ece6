import { readFile } from "node:fs/promises";

/** Whether this process may mount: whether it has CAP_SYS_ADMIN (capabilities(7)). */
export async function canMount(): Promise<boolean> {
  const status = await readFile("/proc/self/status", "utf8");
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? "0"}`);
  return (effective & capSysAdmin) !== 0n;
}

const capSysAdmin = 1n << 21n;
