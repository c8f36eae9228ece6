import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import * as z from "zod";

/** The environment variable with the socket at which test files borrow control planes. */
export const planesVariable = "RAMET_TEST_CONTROL_PLANES";

/** `all`: also Deployments and other kinds that have no controller here. */
const Apis = z.enum(["needed", "all"]);
export type Apis = z.infer<typeof Apis>;

export const Borrowing = z.object({ apis: Apis });

const PlaneFiles = z.object({
  server: z.string(),
  kubeconfigPath: z.string(),
  ca: z.string(),
  adminCert: z.string(),
  adminKey: z.string(),
  dir: z.string(),
});
/** How to reach a control plane. */
export type PlaneFiles = z.infer<typeof PlaneFiles>;

/** Borrows a control plane with Ramet's CRDs. No other file uses it until `giveBack`. */
export async function borrowPlane(path: string, apis: Apis): Promise<PlaneFiles & { giveBack: () => Promise<void> }> {
  const socket = connect(path);
  const lines: AsyncIterator<string, undefined> = createInterface(socket)[Symbol.asyncIterator]();
  const ask = async (request: object): Promise<string> => {
    socket.write(`${JSON.stringify(request)}\n`);
    const { value } = await lines.next();
    if (value === undefined) throw new Error("no control plane could be started: see the output of vitest");
    return value;
  };
  await once(socket, "connect");
  const files = PlaneFiles.parse(JSON.parse(await ask({ apis })));
  return {
    ...files,
    giveBack: async () => {
      await ask({});
      socket.end();
    },
  };
}
