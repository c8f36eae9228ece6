import { z } from "zod";
import { RametError } from "../base/errors.ts";
import { runProgram } from "../base/run-program.ts";

const Finding = z.object({ ok: z.boolean(), reason: z.string().optional(), hint: z.string().optional() });
const Report = z.object({ pod: Finding, networkNamespace: Finding, veth: Finding, nftables: Finding });

const needed = [
  ["pod", "namespaces for the processes of a Pod"],
  ["networkNamespace", "network namespaces"],
  ["veth", "veth pairs"],
  ["nftables", "nftables"],
] as const;

/**
 * Tries with `ramet-link probe` whether sandboxes can be run here by this user.
 * @throws RametError `HostUnsupported`: what is missing, who refused it, and what to do
 */
export async function probeHost(link: string): Promise<void> {
  const { stdout, stderr } = await runProgram({ program: link, args: ["probe"], timeoutMilliseconds: 60_000 });
  const report = parse(stdout, stderr);
  for (const [name, what] of needed) {
    const { ok, reason, hint } = report[name];
    if (ok) continue;
    throw new RametError(
      "HostUnsupported",
      `Sandboxes cannot run here: this machine refuses ${what}: ${reason ?? ""}`,
      {
        ...(hint !== undefined && hint !== "" && { hint }),
      },
    );
  }
}

function parse(stdout: string, stderr: string): z.infer<typeof Report> {
  try {
    return Report.parse(JSON.parse(stdout));
  } catch (cause) {
    const why = stderr.trim() || stdout.trim();
    throw new RametError("HostUnsupported", `Sandboxes cannot run here: ramet-link probe said: ${why}`, { cause });
  }
}
