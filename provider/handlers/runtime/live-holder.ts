import { controllersLease, systemNamespace } from "../../../src/api/names/system-names.ts";
import { delay } from "../../../src/base/clock.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { LeaseObject } from "../../../src/kube/lease.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import { lookAtCluster } from "../look-at-cluster.ts";
import type { Surroundings } from "../open-cluster.ts";

/** The lease of Ramet's controllers. */
export const leaseAt = { namespace: systemNamespace, name: controllersLease };

/**
 * Who renews the lease of Ramet's controllers. It takes up to `watchMilliseconds` to tell, as a holder that was killed has left a lease that
 * looks like a living one's: it has to be seen renewed.
 *
 * @throws RametError when the cluster cannot be reached or may not be read
 */
export function liveHolder(around: Surroundings): Promise<string | undefined> {
  return lookAtCluster(
    around,
    async (client, signal) => {
      const first = await read(client, signal);
      if (first === undefined || first.renewed < client.clock.now().getTime() - staleMilliseconds) return undefined;
      for (let waited = 0; waited < watchMilliseconds; waited += pauseMilliseconds) {
        await delay(client.clock, pauseMilliseconds, signal);
        const seen = await read(client, signal);
        if (seen?.renewed !== first.renewed) return seen?.holder;
      }
      return undefined;
    },
    { withinMilliseconds: watchMilliseconds + 10_000 },
  );
}

/** Undefined where nobody holds it. */
async function read(client: KubeClient, signal: AbortSignal): Promise<{ holder: string; renewed: number } | undefined> {
  const leases = client.resource(coreResources.leases, (value) => LeaseObject.parse(value));
  const { holderIdentity: holder, renewTime } = (await leases.find(leaseAt, { signal }))?.spec ?? {};
  return holder && renewTime ? { holder, renewed: Date.parse(renewTime) } : undefined;
}

/** What was not renewed for so long is not watched: clocks that differ by more are not reckoned with. */
const staleMilliseconds = 60_000;
/** A holder renews it every 5 s, and gives it up where it could not for 10. */
const watchMilliseconds = 12_000;
const pauseMilliseconds = 500;
