import { expect, it } from "vitest";
import { cellSetting, ownLayer } from "./cell-setting.ts";

const defaults = { RAMET_DEFAULT_MEMORY_BYTES: "4096", RAMET_DEFAULT_CPU_MILLIS: "1500" };

it("completes the limits that a container does not declare, and does not record them", () => {
  const setting = (resources: object, environment = defaults) =>
    cellSetting({ ...environment, RAMET_CELL: JSON.stringify(config(resources)) });
  expect(setting({}).container.resources).toEqual({ memoryBytes: 4096, cpuMillis: 1500 });
  expect(setting({ memoryBytes: 8192 }).container.resources).toEqual({ memoryBytes: 8192, cpuMillis: 1500 });
  expect(setting({}).config.container.resources).toEqual({});
  const sized = { ...config({}), layerBytes: 2048 };
  expect(cellSetting({ RAMET_CELL: JSON.stringify(sized) }).container.resources).toEqual({ storageBytes: 2048 });
  const inMemory = cellSetting({ RAMET_CELL: JSON.stringify({ ...sized, layerInMemory: true }) });
  expect(ownLayer(inMemory)).toEqual({ medium: "memory", sizeBytes: 2048 });
  expect(ownLayer(setting({}))).toEqual({ medium: "disk", sizeBytes: 10 * 1024 ** 3 });
  const limited = { ...config({ storageBytes: 512 }), layerBytes: 2048 };
  expect(cellSetting({ RAMET_CELL: JSON.stringify(limited) }).container.resources).toEqual({ storageBytes: 512 });
  expect(() => setting({}, { ...defaults, RAMET_DEFAULT_CPU_MILLIS: "-1" })).toThrow("RAMET_DEFAULT_CPU_MILLIS");
});

it("prefers the container's variables to the image's, also those that the kubelet resolves, and does not expand the image's", () => {
  const { container } = cellSetting({
    RAMET_CELL: JSON.stringify(config({}, { args: ["$(FROM_SECRET)"], env: [{ name: "LITERAL", value: "pod" }] })),
    RAMET_ENV_FROM_SECRET: "secret",
    RAMET_ENV_LITERAL: "secret",
    RAMET_IMAGE_CONFIG: JSON.stringify({
      env: ["FROM_SECRET=image", "LITERAL=image", "OWN=$(FROM_SECRET)", "EMPTY="],
      entrypoint: ["run", "$(FROM_SECRET)"],
      cmd: ["cmd"],
      workingDir: "/srv",
    }),
  });
  expect(Object.fromEntries(container.env.map(({ name, value }) => [name, value]))).toEqual({
    FROM_SECRET: "secret",
    LITERAL: "pod",
    OWN: "$(FROM_SECRET)",
    EMPTY: "",
  });
  expect(container).toMatchObject({ command: ["run", "$(FROM_SECRET)"], args: ["secret"], workingDir: "/srv" });
});

it("ignores and names fields of a later release, but not below the fields that protect the sandbox", () => {
  const setting = (more: object) => cellSetting({ RAMET_CELL: JSON.stringify({ ...config({ gpus: 1 }), ...more }) });
  expect(setting({ later: { a: 1 } }).ignored).toEqual(["container.resources.gpus", "later"]);
  expect(setting({ later: 1 }).config).not.toHaveProperty("later");
  expect(() => setting({ egress: { default: "deny", exceptAtNight: true } })).toThrow("exceptAtNight");
  expect(() => setting({ v: 2, later: 1 })).toThrow("expected 1");
});

function config(resources: object, fields: object = {}): object {
  return {
    v: 1,
    sandbox: { namespace: "default", name: "a", uid: "uid" },
    container: { name: "main", image: "python", resources, ...fields },
    rootPath: "/image",
    templateDigest: "sha256:0",
    start: "boot",
    publicKey: "key",
  };
}
