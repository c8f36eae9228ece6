import { cellPort } from "../../api/cell/cell-api.ts";
import type { Container, Handler, Volume } from "../../api/schema/pod-template.ts";
import type { NodePod } from "./pod.ts";
import { unsupportedProbe } from "./probe-attempt.ts";

const volumeKinds = ["image", "emptyDir", "configMap", "secret"];

/** Why the local node cannot run a Pod as it says it is to be run: one sentence that names the field. */
export function unsupported(pod: NodePod): string | undefined {
  const { containers, initContainers, volumes = [] } = pod.spec;
  const [container] = containers;
  if (container === undefined) return "spec.containers is empty";
  if (initContainers !== undefined && initContainers.length > 0)
    return only("spec.initContainers", "runs no init containers and no sidecars");
  if (containers.length > 1) return only("spec.containers[1]", "runs one container, the cell's");
  if (container.env?.some(({ name }) => name === "RAMET_CELL") !== true)
    return only("spec.containers[0].env", "runs sandboxes of Ramet only, and RAMET_CELL is not set");
  return firstOf(volumes.entries(), volumeProblem) ?? containerProblem(container);
}

function volumeProblem([index, volume]: [number, Volume]): string | undefined {
  const kind = Object.keys(volume).find((key) => key !== "name");
  if (kind === undefined || volumeKinds.includes(kind)) return undefined;
  return only(`spec.volumes[${index}].${kind}`, `has these kinds of volumes only: ${volumeKinds.join(", ")}`);
}

function containerProblem(container: Container): string | undefined {
  const { lifecycle } = container;
  const at = "spec.containers[0]";
  for (const name of ["startupProbe", "readinessProbe", "livenessProbe"] as const) {
    const problem = container[name] && unsupportedProbe(container[name]);
    if (problem !== undefined) return only(`${at}.${name}.${problem.field}`, problem.why);
  }
  if (lifecycle?.postStart !== undefined || lifecycle?.preStop !== undefined)
    return only(`${at}.lifecycle`, "runs no lifecycle hooks");
  return undefined;
}

/** The probe that every cell's Pod has (src/api/cell-container.ts): the node answers it from the cell's state. */
export function asksTheCell({ httpGet }: Handler): boolean {
  return httpGet?.port === cellPort && httpGet["path"] === "/readyz";
}

function only(field: string, what: string): string {
  return `${field} cannot be honoured: the local node ${what}`;
}

function firstOf<T>(values: Iterable<T>, find: (value: T) => string | undefined): string | undefined {
  for (const value of values) {
    const found = find(value);
    if (found !== undefined) return found;
  }
  return undefined;
}
