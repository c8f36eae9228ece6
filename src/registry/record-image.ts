import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import type { ResolvedImage } from "../api/pod/resolved-image.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { lookUpImage } from "./look-up-image.ts";
import { parsePullSecret, type PullKeyring } from "./pull-credentials.ts";
import { imageAddress } from "./registry-address.ts";
import { RegistryTransport } from "./registry-transport.ts";

export interface RecordOptions {
  /** As in Go: `amd64`, `arm64`. */
  architecture: string;
  environment?: NodeJS.ProcessEnv;
  clock?: Clock;
}

/**
 * Looks an image up on the machine of a user, with the credentials of `docker login`, for controllers that cannot reach its registry.
 * The machine's user names the image, so every address is allowed. As for Docker, only a registry on this machine is read by HTTP.
 * @throws RametError as {@link lookUpImage}
 */
export async function recordImage(name: string, options: RecordOptions): Promise<ResolvedImage> {
  const { architecture, environment = process.env, clock = systemClock } = options;
  const { host } = imageAddress(name);
  const isHere = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/.test(host);
  const transport = new RegistryTransport({ anyAddress: true, insecureRegistries: isHere ? [host] : [] });
  try {
    const keyring = await dockerKeyring(environment);
    return await lookUpImage({ name, architecture, preferred: architecture, keyring }, { transport, clock });
  } finally {
    await transport.close();
  }
}

/** Credentials in a helper program of Docker are not read. */
async function dockerKeyring({ DOCKER_CONFIG, HOME }: NodeJS.ProcessEnv): Promise<PullKeyring> {
  const path = join(DOCKER_CONFIG ?? join(HOME ?? homedir(), ".docker"), "config.json");
  const text = await readFile(path, "utf8").catch(() => "");
  return parsePullSecret(text) ?? [];
}
