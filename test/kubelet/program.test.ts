import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openProgram, type ProgramWorld } from "../program/program-world.ts";
import { imageNames } from "./images.ts";
import { controllers, makeStoreSecret, openWorld, type World } from "./world.ts";

/**
 * Tests a program with a whole platform on a real kubelet. The engine is the stand-in, or `pulumi` with
 * RAMET_TEST_ENGINE=pulumi.
 */
describe("a program that installs the runtime and uses it", () => {
  let world: World;
  let program: ProgramWorld;

  beforeAll(async () => {
    world = await openWorld();
    await world.apply(JSON.stringify({ apiVersion: "v1", kind: "Namespace", metadata: { name: "ramet-system" } }));
    await makeStoreSecret(world);
    program = await openProgram("test/program/programs/kubelet", {
      kubeconfig: world.kubeconfig,
      configuration: {
        "program:image": imageNames.controller,
        "program:cellImage": imageNames.cell,
        "program:python": imageNames.python,
        "program:endpoint": world.s3.endpoint,
      },
    });
  });
  afterAll(() => program.remove());

  const rows = async (url: string): Promise<string> => (await fetch(`${url}/rows`)).text();

  it("runs all its resources after up", async () => {
    const up = await program.engine.up();
    expect(up.succeeded, up.text).toBe(true);
    expect(up.outputs).toMatchObject({ mode: "install", version: 1 });
    // They work before the kubelet has probed them, and the offline engine does not wait for Deployments.
    await expect.poll(() => world.readyPods(...controllers), { timeout: 60_000 }).toBe(2);
    expect(await rows(String(up.outputs["url"]))).toMatch(/^1\n.*\n1000\n$/s);
    const name = await world.ramet("claim", "program-pool");
    expect(await world.inSandbox(name, "tail -1 /data/rows")).toBe("1000");
  });

  it("changes nothing in another up, and rebuilds from a changed step and rolls the set", async () => {
    const again = await program.engine.up();
    expect(again.steps.filter(({ operation }) => operation !== "same")).toEqual([]);
    await program.edit("seq 1000", "seq 2000");
    expect((await program.engine.preview()).text).toContain(
      "rebuilds from step 2 of 4; program-pool rolls 2 sandboxes",
    );
    const changed = await program.engine.up();
    expect(changed.succeeded, changed.text).toBe(true);
    expect(changed.outputs).toMatchObject({ version: 2 });
    const name = await world.ramet("claim", "program-pool");
    expect(await world.inSandbox(name, "tail -1 /data/rows")).toBe("2000");
  });

  it("removes the controllers with destroy", async () => {
    const destroyed = await program.engine.destroy();
    expect(destroyed.succeeded, destroyed.text).toBe(true);
    await expect.poll(() => world.readyPods(...controllers), { timeout: 60_000 }).toBe(0);
  });
});
