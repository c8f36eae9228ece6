import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog, type Log } from "../../src/base/log.ts";
import { openPki } from "../../src/local/control-plane/pki.ts";
import type { CellTools } from "../../src/local/node/cell-environment.ts";
import { localNodeName } from "../../src/local/node/node-object.ts";
import { runLocalNode } from "../../src/local/node/run-node.ts";
import { acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { pythonRootPath } from "../setup/python-image.ts";
import type { ClusterOptions } from "./controllers-cluster.ts";

export interface RealNodeOptions {
  /** Default command of an image, by image name. @default images have no command */
  commands?: Record<string, string[]>;
  /** Additional environment of every cell. */
  environment?: Record<string, string>;
  /** The cell images whose programs are not Ramet's own. @default none */
  cells?: Readonly<Record<string, Partial<CellTools>>>;
  log?: Log;
}

/** Runs the local node with real cells in this process. Every image is the Debian root file system with Python. */
export function realNode({
  commands = {},
  environment = {},
  cells = {},
  log = silentLog,
}: RealNodeOptions = {}): ClusterOptions["startNode"] {
  return async ({ client, controlPlane, directory, signal }) => {
    const tools = await acquireTools({ names: ["runsc", "ramet-guest", "ramet-link"] });
    const rootPath = await pythonRootPath();
    const layers = join(directory, "layers");
    await mkdir(layers);
    const pki = await openPki(join(controlPlane.dir, "pki"), () => systemClock.now());
    const serving = await pki.issue({ commonName: localNodeName, use: "server", hosts: ["127.0.0.1"] });
    const own = { runsc: tools.runsc, guest: tools["ramet-guest"], link: tools["ramet-link"] };
    const ready = Promise.withResolvers<undefined>();
    const stopped = runLocalNode(
      {
        client,
        dir: join(directory, "node"),
        // No sandbox of these tests has a claim.
        driverSocket: join(directory, "csi.sock"),
        images: {
          image: (name) =>
            Promise.resolve({
              rootPath,
              digest: `sha256:${"d".repeat(64)}`,
              config: { entrypoint: [], cmd: commands[name] ?? [], env: ["FROM_IMAGE=yes"], workingDir: "/usr" },
            }),
        },
        tools: own,
        cell: [...builtPrograms.cell],
        earlierCells: (image) => cells[image] && { tools: { ...own, ...cells[image] }, cell: [...builtPrograms.cell] },
        environment: { PATH: process.env["PATH"] ?? "", HOME: directory, NODE_NO_WARNINGS: "1", ...environment },
        view: { hidden: [directory], shared: [], store: join(directory, "store"), layers },
        serving: { ca: pki.ca, ...serving },
        log,
        onReady: () => {
          ready.resolve(undefined);
        },
      },
      signal,
    );
    await Promise.race([ready.promise, stopped]);
    return { stopped };
  };
}
