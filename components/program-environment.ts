import { Config } from "@pulumi/pulumi";
import type { Surroundings } from "../provider/handlers/open-cluster.ts";

/** Where the program's cluster is found: by the stack's configuration, as Pulumi's Kubernetes provider does by itself. */
export function programSurroundings(): Surroundings {
  const configuration = new Config("kubernetes");
  const get = (key: string): string | undefined => configuration.get(key.replace(/^kubernetes:/, ""));
  return { configuration: { get }, environment: process.env };
}
