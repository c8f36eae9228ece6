import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { installCrds } from "../../src/controllers/install-crds.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { startControlPlane, type TestControlPlane } from "./control-plane.ts";
import { EtcdDatabase } from "./etcd-database.ts";
import { type Apis, Borrowing, planesVariable, type PlaneFiles } from "./borrowed-plane.ts";

/**
 * Vitest's global setup: lends control planes with Ramet's CRDs to test files, one at a time to one file. A plane that is returned gets
 * back the database of its start, so a file sees nothing of another one. The planes are children of this process and end with it.
 */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  // Each project has this setup, in the same process.
  if (process.env[planesVariable] !== undefined) return undefined;
  process.env[planesVariable] = join(tmpdir(), `ramet-planes-${process.pid}.sock`);
  const planes = new SharedPlanes();
  const server = createServer((socket) => {
    lend(planes, socket).catch((error: unknown) => {
      console.error("cannot lend a control plane:", error);
      socket.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(process.env[planesVariable], resolve));
  return async () => {
    server.close();
    await planes.stop();
  };
}

/** A borrower writes one line with its request, and a second one when it no longer uses the plane. */
async function lend(planes: SharedPlanes, socket: Socket): Promise<void> {
  let plane: SharedPlane | undefined;
  // A borrower that was killed closes the connection too.
  socket.on("error", () => socket.destroy());
  try {
    for await (const line of createInterface(socket)) {
      if (plane === undefined) {
        plane = await planes.take(Borrowing.parse(JSON.parse(line)).apis);
        socket.write(`${JSON.stringify(plane.files)}\n`);
      } else {
        planes.giveBack(plane);
        plane = undefined;
        socket.end("returned\n");
        return;
      }
    }
  } finally {
    // The processes of a file that did not return its plane may still use it.
    if (plane !== undefined) await planes.discard(plane);
  }
}

class SharedPlanes {
  readonly #free: { plane: SharedPlane; clean: Promise<boolean> }[] = [];
  readonly #all = new Set<SharedPlane>();
  #started = 0;
  #lent = 0;

  async take(apis: Apis): Promise<SharedPlane> {
    this.#lent += 1;
    for (;;) {
      const at = this.#free.findIndex(({ plane }) => plane.apis === apis);
      const [found] = at === -1 ? [] : this.#free.splice(at, 1);
      if (found === undefined) break;
      if (await found.clean) return found.plane;
      await this.discard(found.plane);
    }
    this.#started += 1;
    const plane = await SharedPlane.start(apis);
    this.#all.add(plane);
    return plane;
  }

  giveBack(plane: SharedPlane): void {
    const clean = plane.reset().catch((error: unknown) => {
      console.error("a shared control plane ends:", error);
      return false;
    });
    this.#free.push({ plane, clean });
  }

  async discard(plane: SharedPlane): Promise<void> {
    this.#all.delete(plane);
    await plane.stop();
  }

  async stop(): Promise<void> {
    if (this.#lent > 0) console.log(`Started ${this.#started} shared control planes for ${this.#lent} clusters.`);
    await Promise.all([...this.#all].map((plane) => this.discard(plane)));
  }
}

class SharedPlane {
  readonly apis: Apis;
  readonly #plane: TestControlPlane;
  readonly #client: KubeClient;
  readonly #database: EtcdDatabase;

  private constructor(apis: Apis, plane: TestControlPlane) {
    this.apis = apis;
    this.#plane = plane;
    this.#client = new KubeClient(plane.connection);
    this.#database = new EtcdDatabase(join(plane.dir, "etcd.sock:0"));
  }

  static async start(apis: Apis): Promise<SharedPlane> {
    const dir = await mkdtemp(join(tmpdir(), "ramet-shared-plane-"));
    const shared = new SharedPlane(apis, await startControlPlane({ dir, apis }));
    await installCrds(shared.#client);
    await shared.#database.keep();
    return shared;
  }

  get files(): PlaneFiles {
    const { server, kubeconfigPath, ca, adminCert, adminKey, dir } = this.#plane;
    return { server, kubeconfigPath, ca, adminCert, adminKey, dir };
  }

  /** Restores the database. Resolves to false if the API server may remember something else. */
  async reset(): Promise<boolean> {
    const difference = await this.#database.compare();
    if (Object.values(difference).flat().some(isRemembered)) return false;
    await this.#database.restore(difference);
    // A list without a resource version waits until the API server's cache has the deletions.
    const cached = [...Object.values(sandboxResources), ...watched];
    await Promise.all(cached.map((ref) => this.#client.resource(ref).list()));
    return true;
  }

  async stop(): Promise<void> {
    await this.#client.close();
    await this.#plane.stop();
    await rm(this.#plane.dir, { recursive: true, force: true });
  }
}

const { namespaces, pods, secrets, configMaps } = coreResources;
const watched = [namespaces, pods, secrets, configMaps];

/** Objects that the API server compiles, calls or serves. It forgets them some time after they were deleted. */
function isRemembered(path: string): boolean {
  return /^\/registry\/(apiextensions\.k8s\.io|apiregistration\.k8s\.io|validatingadmission|mutatingadmission|validatingwebhook|mutatingwebhook)/.test(
    path,
  );
}
