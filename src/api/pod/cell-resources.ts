import { quantityToBytes, quantityToMillicores } from "../../base/quantity.ts";
import type { Container } from "../schema/pod-template.ts";

type Resources = NonNullable<Container["resources"]>;

/**
 * The resources that a cell needs on top of its sandbox, measured: 55 MiB of memory for the cell and link, 25 MiB for a `runsc` command, and up to
 * 30 MiB of buffers while a checkpoint is uploaded.
 */
const overheadBytes = 128 * 1024 ** 2;
/** While the sandbox uses all of its own CPU, its cell must respond. */
const overheadMillis = 100;
/** Starting a cell and its sandbox takes about one second of CPU: ten seconds with a limit of 100m. */
const leastMillis = 1_000;

/**
 * Returns the resources of a cell's container: those of the template's container plus what the cell needs. The sandbox itself has
 * the template's limits, in its own control groups. Memory is added to the request too, because the cell keeps it. CPU is not,
 * because the cell uses it only while it starts, captures or restores.
 * @param limitsSandbox whether the cell can give the sandbox limits of its own. If not, those of the container bound the sandbox,
 *   and a small CPU limit is not raised, although the sandbox then starts slowly
 */
export function cellResources(resources: Resources, limitsSandbox = true): Resources {
  const limits = { ...resources.limits };
  // As the API server does. A raised limit must not become the request.
  const requests = { ...limits, ...resources.requests };
  if (limits["memory"] !== undefined) limits["memory"] = bytesPlus(limits["memory"], overheadBytes);
  if (requests["memory"] !== undefined) requests["memory"] = bytesPlus(requests["memory"], overheadBytes);
  if (limits["cpu"] !== undefined) {
    const least = limitsSandbox ? leastMillis : 0;
    limits["cpu"] = `${Math.max(quantityToMillicores(limits["cpu"]) + overheadMillis, least)}m`;
  }
  return {
    ...resources,
    ...(resources.limits && { limits }),
    ...((resources.limits ?? resources.requests) && { requests }),
  };
}

function bytesPlus(quantity: string | number, more: number): string {
  const bytes = quantityToBytes(quantity) + more;
  const mebibyte = 1024 ** 2;
  return bytes % mebibyte === 0 ? `${bytes / mebibyte}Mi` : `${bytes}`;
}
