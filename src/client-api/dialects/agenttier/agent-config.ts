import { createHash } from "node:crypto";
import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { annotations } from "../../../api/names/labels.ts";
import type { Configure } from "./schemas.ts";

/** The agent of a sandbox, as its annotation has it. */
const AgentConfig = z.object({
  entrypoint: z.array(z.string()),
  installHash: z.string(),
  configuredAt: z.string(),
  /** The end of what the installation has printed. */
  installLog: z.string(),
});
export type AgentConfig = z.infer<typeof AgentConfig>;

/** Undefined for a sandbox that was not configured. Users can write the annotation, so it can hold anything. */
export function agentConfigOf({ metadata }: Sandbox): AgentConfig | undefined {
  const text = metadata.annotations?.[annotations.clientAgent];
  try {
    return text === undefined ? undefined : AgentConfig.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

export function agentAnnotation(config: AgentConfig): Record<string, string> {
  return { [annotations.clientAgent]: JSON.stringify(config) };
}

/** The digest of what an installation consists of, in whichever order its files are given. */
export function installHash({ files = [], installCommand = [] }: Configure): string {
  const sorted = files
    .map(({ path, content, contentBase64 }) => [path, content, contentBase64])
    .toSorted(([a = ""], [b = ""]) => (a < b ? -1 : 1));
  return createHash("sha256")
    .update(JSON.stringify([installCommand, sorted]))
    .digest("hex");
}
