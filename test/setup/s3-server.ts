import { mkdir, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { acquirePinned } from "../../src/local/tools/acquire-tools.ts";
import { freePort } from "./free-port.ts";
import { startLoopbackServer, startRestartable } from "./loopback-server.ts";
import type { ObjectServer } from "./object-server.ts";
import { pinnedTestTool } from "./pinned-tools.ts";

/** A real S3 server that stores its objects in a directory. */
export interface S3Server extends ObjectServer {
  environment: { AWS_ACCESS_KEY_ID: string; AWS_SECRET_ACCESS_KEY: string };
  /** Creates an empty bucket and returns its name. */
  makeBucket(): Promise<string>;
}

export async function startS3Server(): Promise<S3Server> {
  const { versitygw: program } = await acquirePinned(pinnedTestTool, { names: ["versitygw"] });
  const dir = await mkdtemp(join(tmpdir(), "ramet-s3-"));
  // The server stores a bucket as a directory, and metadata in sidecar files: not every file system supports attributes.
  const buckets = join(dir, "buckets");
  for (const directory of ["buckets", "sidecar"]) await mkdir(join(dir, directory));
  const port = await freePort();
  const environment = { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "a-secret-of-the-test-server" };
  const start = () =>
    startLoopbackServer({
      what: "the S3 server",
      program,
      dir,
      port,
      args: [
        `--port=127.0.0.1:${port}`,
        "--keep-alive",
        "--quiet",
        "posix",
        `--sidecar=${dir}/sidecar`,
        `${dir}/buckets`,
      ],
      environment: {
        ROOT_ACCESS_KEY_ID: environment.AWS_ACCESS_KEY_ID,
        ROOT_SECRET_ACCESS_KEY: environment.AWS_SECRET_ACCESS_KEY,
      },
    });
  const server = await startRestartable(dir, start);
  let made = 0;
  const makeBucket = async (): Promise<string> => {
    const name = `bucket-${++made}`;
    await mkdir(join(buckets, name));
    return name;
  };
  const endpoint = `http://127.0.0.1:${port}`;
  return {
    endpoint,
    environment,
    makeBucket,
    makePlace: async (way = endpoint) => ({ driver: "s3", bucket: await makeBucket(), endpoint: way }),
    ...server,
  };
}
