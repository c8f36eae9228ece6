import { execFile } from "node:child_process";
import { promisify } from "node:util";
import * as z from "zod";
import { sandboxTemplateKind } from "../../../src/api/kinds/sandbox-template.ts";
import { apiVersion } from "../../../src/api/schema/kind.ts";
import { refOf } from "../../../src/kube/resource-ref.ts";
import { builtPrograms } from "../../setup/built-package.ts";
import { ClientWorld } from "../client-world.ts";
import { addBaseImage } from "./base-image.ts";

export interface SdkWorld {
  /** The variables of `ramet local env`. */
  environment: Record<string, string>;
  close: () => Promise<void>;
}

const run = promisify(execFile);

/**
 * A local cluster with what E2B's tests expect: a template and a set `base`, and the images of the build tests. The images are
 * stand-ins: a Debian with the programs and the user that the tests use.
 */
export async function openSdkWorld(through: readonly string[]): Promise<SdkWorld> {
  const world = await ClientWorld.open({ ownImages: true });
  try {
    const { cluster, client } = world;
    await addBaseImage(cluster.environment, ["e2b-base", "ubuntu:22.04"]);
    const [program, main] = builtPrograms.ramet;
    const command = [...through, program, main, "local", "env", "--name", "test", "-o", "json", "--mode", "domain"];
    const { stdout } = await run(command[0] ?? "", command.slice(1), { env: cluster.environment });
    const container = {
      name: "sandbox",
      image: "e2b-base",
      command: ["sleep", "infinity"],
      resources: { limits: { cpu: "2", memory: "1Gi" }, requests: { cpu: "100m", memory: "64Mi" } },
    };
    await client.resource(refOf(sandboxTemplateKind)).create({
      apiVersion,
      kind: "SandboxTemplate",
      metadata: { namespace: "default", name: "base" },
      spec: { template: { spec: { containers: [container] } } },
    });
    await world.createSet("base", 3, { template: undefined, templateRef: { name: "base" } });
    return {
      environment: z.record(z.string(), z.string()).parse(JSON.parse(stdout)),
      close: () => world.close(),
    };
  } catch (error) {
    await world.close();
    throw error;
  }
}
