import { expect, it } from "vitest";
import { cellEnvironment } from "./cell-environment.ts";

it("passes no variable of a Pod to the cell's process but its setting and the sandbox's own", () => {
  const cell = {
    v: 1,
    sandbox: { namespace: "default", name: "a", uid: "uid" },
    container: { name: "main", image: "python" },
    rootPath: "/image",
    templateDigest: "sha256:0",
    start: "boot",
    publicKey: "key",
  };
  const variables = new Map([
    ["RAMET_CELL", JSON.stringify(cell)],
    ["RAMET_ENV_TOKEN", "of the sandbox"],
    ["NODE_OPTIONS", "--import=data:text/javascript,process.exit(1)"],
    ["LD_PRELOAD", "/tmp/evil.so"],
    ["PATH", "/tmp/evil"],
    ["RAMET_CELL_SETTING", "stdin"],
    ["RAMET_ENGINE_BUILD", "{}"],
    ["GODEBUG", "execerrdot=0"],
  ]);
  const container = {
    variables,
    image: { rootPath: "/images/python", config: {}, digest: "sha256:1" } as never,
    ip: "127.64.0.1",
    tools: { runsc: "/tools/runsc", guest: "/tools/guest", link: "/tools/link" },
  };
  const environment = cellEnvironment(container, new Map(), false);
  expect(environment).toMatchObject({ RAMET_ENV_TOKEN: "of the sandbox", RAMET_LINK: "/tools/link" });
  expect(Object.keys(environment).sort()).toEqual([
    "RAMET_CELL",
    "RAMET_CELL_DIRECTORY",
    "RAMET_CELL_LISTEN",
    "RAMET_CELL_STATE_FILE",
    "RAMET_ENV_TOKEN",
    "RAMET_GUEST",
    "RAMET_IMAGE_CONFIG",
    "RAMET_LINK",
    "RAMET_ROOT_PATH",
    "RAMET_RUNSC",
  ]);
});
