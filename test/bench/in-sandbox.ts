import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { withCellGuest } from "../../src/cli/cluster/guest-access.ts";
import type { LocalCluster } from "./local-cluster.ts";

/** Runs a shell command in a sandbox and returns its output. */
export async function runInSandbox(
  { cluster }: LocalCluster,
  sandbox: Sandbox,
  script: string,
  timeoutMilliseconds = 60_000,
): Promise<string> {
  const signal = AbortSignal.timeout(timeoutMilliseconds);
  return withCellGuest(cluster, sandbox, { signal }, async (guest) => {
    let text = "";
    for await (const event of guest.startProcess({ command: "sh", args: ["-c", script] }, signal)) {
      if (event.type === "data") text += event.data.toString();
      if (event.type === "end" && event.exitCode !== 0)
        throw new Error(`${script}: exit code ${event.exitCode}: ${text}`);
    }
    return text.trim();
  });
}
