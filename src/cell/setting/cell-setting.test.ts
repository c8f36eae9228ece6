import { expect, it } from "vitest";
import { cellSetting } from "./cell-setting.ts";

const defaults = { RAMET_DEFAULT_MEMORY_BYTES: "4096", RAMET_DEFAULT_CPU_MILLIS: "1500" };

it("completes the limits that a container does not declare, and does not record them", () => {
  const setting = (resources: object, environment = defaults) =>
    cellSetting({ ...environment, RAMET_CELL: JSON.stringify(config(resources)) });
  expect(setting({}).container.resources).toEqual({ memoryBytes: 4096, cpuMillis: 1500 });
  expect(setting({ memoryBytes: 8192 }).container.resources).toEqual({ memoryBytes: 8192, cpuMillis: 1500 });
  expect(setting({}).config.container.resources).toEqual({});
  expect(() => setting({}, { ...defaults, RAMET_DEFAULT_CPU_MILLIS: "-1" })).toThrow("RAMET_DEFAULT_CPU_MILLIS");
});

function config(resources: object): object {
  return {
    v: 1,
    sandbox: { namespace: "default", name: "a", uid: "uid" },
    container: { name: "main", image: "python", resources },
    rootPath: "/image",
    templateDigest: "sha256:0",
    start: "boot",
    publicKey: "key",
  };
}
