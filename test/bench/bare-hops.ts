import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** Bare proxies in front of a sandbox's address: what a path through two processes costs if they only copy. */
export interface BareHops {
  origin: string;
  close(): void;
}

/** Starts one proxy for HTTP and behind it one for bytes, as the gateway and the cell are. */
export async function startBareHops(to: { host: string; port: number }): Promise<BareHops> {
  const cell = await startHop("tcp", to);
  const gateway = await startHop("http", { host: "127.0.0.1", port: cell.port });
  return {
    origin: `http://127.0.0.1:${gateway.port}`,
    close: () => {
      for (const { child } of [gateway, cell]) child.kill("SIGKILL");
    },
  };
}

async function startHop(
  kind: "http" | "tcp",
  { host, port }: { host: string; port: number },
): Promise<{ child: ChildProcess; port: number }> {
  const program = fileURLToPath(new URL("bare-hop-program.ts", import.meta.url));
  const child = spawn(process.execPath, [program, kind, host, `${port}`], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  return { child, port: Number(line.toString()) };
}
