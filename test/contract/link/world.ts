import { writeFile } from "node:fs/promises";
import { join } from "node:path";

/** An address of link's network, which link treats as its Pod's address. */
export const podAddress = "198.51.100.5";

/**
 * Writes a program that runs link in a separate network, and returns its path. In that network, 203.0.113.0/24 is reachable
 * but belongs to no interface, like an external address for a Pod.
 */
export async function worldScript(directory: string, binary: string): Promise<string> {
  const path = join(directory, "link-in-world");
  const setUp = [
    "ip link set lo up",
    `ip address add ${podAddress}/32 dev lo`,
    "ip route add local 203.0.113.0/24 dev lo",
    'exec "$0" "$@"',
  ].join(" && ");
  await writeFile(path, `#!/bin/sh\nexec unshare --net sh -c '${setUp}' ${binary} "$@"\n`, { mode: 0o755 });
  return path;
}
