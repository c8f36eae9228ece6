import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { RametError } from "../../../src/base/errors.ts";
import type { SandboxRef } from "../../../src/backends/runtime.ts";
import { testBackend } from "./backend-contract.ts";
import { FileCopyBackend } from "./file-copy-backend.ts";

let root = "";
let backend: FileCopyBackend;
let count = 0;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "ramet-"));
  backend = new FileCopyBackend({ root });
});
afterAll(() => rm(root, { recursive: true, force: true }));

function newRef(): SandboxRef {
  const name = `s${++count}`;
  return { namespace: "contract", name, uid: `uid-${name}`, podIp: "", claims: [] };
}
const file = ({ uid }: SandboxRef): string => join(backend.directoryOf(uid), "text");

testBackend(() => ({
  backend,
  source: async () => {
    const sandbox = newRef();
    await mkdir(backend.directoryOf(sandbox.uid), { recursive: true });
    return sandbox;
  },
  target: () => Promise.resolve(newRef()),
  unreachable: () => Promise.resolve(newRef()),
  isRunning: ({ uid }) =>
    stat(backend.directoryOf(uid)).then(
      () => true,
      () => false,
    ),
  write: (sandbox, text) => writeFile(file(sandbox), text),
  read: (sandbox) => readFile(file(sandbox), "utf8"),
  hold: ({ uid }) => {
    const started = Promise.withResolvers<undefined>();
    const gate = Promise.withResolvers<undefined>();
    backend.behaviours.set(uid, {
      gate: gate.promise,
      onStart: () => {
        started.resolve(undefined);
      },
    });
    return {
      started: () => started.promise,
      release: () => {
        gate.resolve(undefined);
      },
    };
  },
  breakCapture: ({ uid }) => {
    backend.behaviours.set(uid, { error: new RametError("StoreUnavailable", "the disk was removed") });
    return Promise.resolve();
  },
}));
