import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { parsedJson } from "../../base/tolerant-parse.ts";
import { type ObjectMeta, parseObject } from "../object.ts";
import { ResourceClient } from "../resource-client.ts";
import type { ApiCaller } from "../transport.ts";
import { volumeResources } from "./volumes.ts";

/** On the CSIDriver of a local cluster: since when it prepares the programs that take snapshots, which it builds once. */
export const preparationAnnotation = "local.csi.ramet.dev/preparation";

export const Preparation = z.object({
  since: z.iso.datetime(),
  /** When the programs were there. */
  until: z.iso.datetime().optional(),
  /** Why the last attempt failed, and when the first of those that have failed since the last success did. It is repeated. */
  failure: z.string().optional(),
  failingSince: z.iso.datetime().optional(),
});
export type Preparation = z.infer<typeof Preparation>;

export function preparationOf({ annotations }: Pick<ObjectMeta, "annotations">): Preparation | undefined {
  return parsedJson(Preparation, annotations?.[preparationAnnotation]);
}

/** The preparation of this cluster, if it has one. A user who cannot read it has none. */
export function readPreparation(client: ApiCaller): Promise<Preparation | undefined> {
  return preparationReader(client)();
}

/** As {@link readPreparation}, for many calls: after the API server has refused one, no other is made. */
export function preparationReader(client: ApiCaller): () => Promise<Preparation | undefined> {
  const drivers = new ResourceClient(client, volumeResources.drivers, parseObject);
  let isForbidden = false;
  return async () => {
    if (isForbidden) return undefined;
    const { items } = await drivers.list().catch((error: unknown) => {
      isForbidden = RametError.from(error).code === "Forbidden";
      return { items: [] };
    });
    return items.map(({ metadata }) => preparationOf(metadata)).find((one) => one !== undefined);
  };
}

/** Whether a capture of volumes would wait for it. */
export function delaysCaptures({ since, until }: Preparation, now: Date): boolean {
  return until === undefined && now.getTime() - Date.parse(since) < longestPreparationMilliseconds;
}

/** For messages: what a local cluster prepares, and what helps if that fails. */
export const preparedPrograms = "the snapshot-controller and csi-snapshotter, which it builds once";
export const preparationRemedy =
  "Install Go 1.26 or newer, or connect this machine to the internet; see the state with: ramet local status";

/** A preparation whose end was never reported does not prolong a wait without limit. */
const longestPreparationMilliseconds = 3_600_000;

/**
 * Waits, and then again for as long as the preparation took during the wait, at most one hour: it is no part of the user's time.
 * @param wait returns undefined after this time
 */
export async function waitBesidesPreparation<T>(
  client: ApiCaller,
  limitMilliseconds: number,
  wait: (milliseconds: number) => Promise<T | undefined>,
): Promise<T | undefined> {
  const startedAt = client.clock.now().getTime();
  for (let left = limitMilliseconds; left > 0;) {
    const found = await wait(left);
    if (found !== undefined) return found;
    const preparation = await readPreparation(client);
    if (preparation === undefined || preparation.failure !== undefined) return undefined;
    const now = client.clock.now().getTime();
    const until = preparation.until === undefined ? now : Date.parse(preparation.until);
    const during = until - Math.max(startedAt, Date.parse(preparation.since));
    const prepared = Math.min(longestPreparationMilliseconds, Math.max(0, during));
    left = limitMilliseconds - (now - startedAt - prepared);
  }
  return undefined;
}
