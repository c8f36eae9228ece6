import type { Problem } from "../api/schema/problem.ts";
import type { ClusterFacts, RenewedLease } from "./cluster-facts.ts";
import { checkNamed, type Finding, listed, type Seen, isAtLeast } from "./finding.ts";
import { checkSnapshots, checkVolumes } from "./snapshot-checks.ts";

/** Checks the API server and what is installed in it. */
export function checkCluster(facts: ClusterFacts): Finding[] {
  return [
    kubernetes(facts),
    others(facts),
    podSecurity(facts),
    ...installation(facts),
    cellImage(facts),
    ...clocks(facts),
    store(facts),
    checkVolumes(facts),
    ...checkSnapshots(facts),
    rights(facts),
  ];
}

function kubernetes({ version }: ClusterFacts): Finding {
  const check = checkNamed("kubernetes");
  if ("unknown" in version) return check.unread("The version of Kubernetes is", version);
  if (!isAtLeast(version.value, "1.33")) {
    return check.error(
      `Kubernetes ${version.value} has no image volumes, which cells need`,
      "Upgrade the cluster to Kubernetes 1.35 or later",
    );
  }
  if (!isAtLeast(version.value, "1.35")) {
    return check.warning(
      `Kubernetes ${version.value} has image volumes only with the feature gate ImageVolume, which the API does not show`,
      "Set the feature gate ImageVolume on the API server and the kubelets, or upgrade to 1.35",
    );
  }
  return check.ok(`Kubernetes ${version.value} has image volumes`);
}

function others({ others: found }: ClusterFacts): Finding {
  const check = checkNamed("other-controllers");
  if ("unknown" in found) return check.unread("Whether another controller owns the same kinds is", found);
  if (found.value.length === 0) return check.ok("No other controller owns the same kinds");
  const signs = listed(found.value.map(({ name, sign }) => (name === undefined ? sign : `${sign} (${name})`)));
  return check.error(
    `Another controller owns the same kinds: ${signs}`,
    "Remove the other controller and its CRDs first",
  );
}

function podSecurity({ podSecurity: level, namespace }: ClusterFacts): Finding {
  const check = checkNamed("pod-security");
  if ("unknown" in level) return check.unread(`The Pod Security level of the namespace ${namespace} is`, level);
  const { value } = level;
  if (value === null) {
    const action = `Correct --namespace, or run: kubectl create namespace ${namespace}`;
    return check.warning(`The namespace ${namespace} does not exist`, action);
  }
  if (value === undefined || value === "privileged")
    return check.ok(`The namespace ${namespace} accepts cells: it enforces ${value ?? "no level"}`);
  return check.error(
    `The namespace ${namespace} enforces the Pod Security level ${value}, which refuses cells`,
    `Let an administrator run: kubectl label namespace ${namespace} pod-security.kubernetes.io/enforce=privileged --overwrite`,
  );
}

/** Sandboxes do not start, whatever their templates say. */
function cellImage({ unpulledCells }: ClusterFacts): Finding {
  const check = checkNamed("cell-image");
  if ("unknown" in unpulledCells) return check.unread("Whether nodes can pull the cell image is", unpulledCells);
  const [first] = unpulledCells.value;
  if (first === undefined) return check.ok("No sandbox waits for the cell image");
  const count = unpulledCells.value.length;
  return check.error(
    `Nodes cannot pull the cell image ${first.image}, which ${count} ${count === 1 ? "sandbox waits" : "sandboxes wait"} for: ${first.why}`,
    "Push the image and give the nodes access to its registry, or install Ramet with the cell image of before",
  );
}

/** Before an installation these are not problems. */
function installation({ crds, controllers, nodes, now }: ClusterFacts): Finding[] {
  if ("unknown" in crds) return [checkNamed("installation").unread("Whether Ramet is installed is", crds)];
  const { found, missing } = crds.value;
  if (found.length === 0) return [checkNamed("installation").ok("Ramet is not installed; nothing stands in its place")];
  const kinds =
    missing.length === 0
      ? checkNamed("crds").ok("All CRDs of this version exist")
      : checkNamed("crds").error(
          `CRDs are missing: ${listed(missing)}`,
          "Install the manifests of this version: ramet manifests",
        );
  const isLocal =
    "value" in nodes &&
    nodes.value.length > 0 &&
    nodes.value.every((node) => node.metadata.labels?.["node.kubernetes.io/instance-type"] === "ramet-local");
  return [kinds, controllersFinding(controllers, now, isLocal)];
}

export function controllersFinding(controllers: Seen<RenewedLease | undefined>, now: Date, isLocal: boolean): Finding {
  const check = checkNamed("controllers");
  const action = "Find out why they do not run: kubectl get pods -A -l app.kubernetes.io/component=controller";
  if ("unknown" in controllers) return check.unread("Whether the controllers run is", controllers);
  const lease = controllers.value;
  if (lease === undefined) {
    return isLocal
      ? check.ok("The controller of a local cluster holds no Lease; ramet local status shows it")
      : check.error("No controller has ever held the Lease ramet-controllers", action);
  }
  if (lease.holder === "") return check.error("No controller runs: the last one released its Lease", action);
  const seconds = (now.getTime() - Date.parse(lease.renewTime)) / 1000;
  if (seconds <= lease.durationSeconds + toleratedSkewSeconds) return check.ok(`${lease.holder} leads`);
  return check.error(
    `The leading controller ${lease.holder} has not renewed its Lease for ${Math.round(seconds)} s`,
    action,
  );
}

/** Cells accept tokens from clocks that differ by up to 30 s. */
const toleratedSkewSeconds = 30;
const warningSkewSeconds = 5;

export function clocks({ serverTime, nodeLeases, controllers, now }: ClusterFacts): Finding[] {
  return [machineClock(serverTime, now), nodeClocks(nodeLeases, controllers)];
}

function machineClock(serverTime: ClusterFacts["serverTime"], now: Date): Finding {
  const check = checkNamed("clock");
  if ("unknown" in serverTime) return check.unread("The API server's clock is", serverTime);
  const { at, roundTripMilliseconds } = serverTime.value;
  // The header has whole seconds.
  const seconds = Math.max(0, Math.abs(at.getTime() - now.getTime()) / 1000 - 1 - roundTripMilliseconds / 1000);
  if (seconds <= warningSkewSeconds) return check.ok("This machine's clock agrees with the API server's");
  return check.warning(
    `This machine's clock differs from the API server's by ${Math.round(seconds)} s`,
    "Synchronize this machine's clock with NTP",
  );
}

/** A component writes its own time into its Lease, and the API server adds the time of the write. */
function nodeClocks(nodeLeases: ClusterFacts["nodeLeases"], controllers: ClusterFacts["controllers"]): Finding {
  const check = checkNamed("clock-skew");
  if ("unknown" in nodeLeases) return check.unread("The clocks of the nodes are", nodeLeases);
  const leases = [
    ...nodeLeases.value,
    ...("value" in controllers && controllers.value?.holder ? [controllers.value] : []),
  ];
  const skews = leases.flatMap((lease) => {
    const seconds =
      lease.writtenAt === undefined
        ? NaN
        : Math.abs(Date.parse(lease.renewTime) - Date.parse(lease.writtenAt)) / 1000 - 1;
    return Number.isNaN(seconds) ? [] : [{ name: lease.name, seconds }];
  });
  if (skews.length === 0)
    return check.unknown("No Lease shows the clock of a node", "Synchronize the nodes' clocks with NTP");
  const off = skews.filter(({ seconds }) => seconds > warningSkewSeconds).sort((a, b) => b.seconds - a.seconds);
  if (off.length === 0)
    return check.ok(`The clocks of ${listed(skews.map(({ name }) => name))} agree with the API server's`);
  const level = off.some(({ seconds }) => seconds > toleratedSkewSeconds) ? "error" : "warning";
  const names = listed(off.map(({ name, seconds }) => `${name} by ${Math.round(seconds)} s`));
  return check[level](
    `Clocks differ from the API server's: ${names}; cells refuse calls from clocks that differ by more than 30 s`,
    "Synchronize these clocks with NTP",
  );
}

/** Only the controllers and cells reach the store. The controllers check it every 10 minutes, and report what captures find. */
function store({ store: report, now }: ClusterFacts): Finding {
  const check = checkNamed("store");
  if ("unknown" in report) return check.unread("Whether the store is reachable is", report);
  const { checkedAt, problem, captureProblem, dataMissing } = report.value ?? { checkedAt: "", dataMissing: 0 };
  if (problem !== undefined) return refusing(`The store cannot be used, as of ${checkedAt}`, problem);
  if (captureProblem !== undefined) return refusing("The last capture could not use the store", captureProblem);
  if (now.getTime() - Date.parse(checkedAt) > staleMilliseconds || checkedAt === "") {
    const since = checkedAt === "" ? "yet" : `since ${checkedAt}`;
    const what = `The controllers have not checked the store ${since}, and only they and the cells reach it`;
    return check.unknown(what, "Run the checks again a minute after the controllers have started");
  }
  if (dataMissing === 0) return check.ok(`The store was usable at ${checkedAt}, and had the data of all checkpoints`);
  return check.warning(
    `The store had no data of ${dataMissing} checkpoints at ${checkedAt}`,
    "List them, then restore the store's content or delete them: kubectl get checkpoints -A shows DataMissing",
  );
}

/** Three times the pause between two checks. */
const staleMilliseconds = 30 * 60_000;

function refusing(what: string, { code, cause, hint }: Problem): Finding {
  const action = hint ?? `Read what the error code means: ramet explain ${code}`;
  return checkNamed("store").error(`${what}: ${cause}`, action);
}

export function rights({ missingRights, namespace }: ClusterFacts): Finding {
  const check = checkNamed("rbac");
  if ("unknown" in missingRights) return check.unread("Your rights are", missingRights);
  const missing = missingRights.value;
  const [first] = missing;
  if (first === undefined) return check.ok("You have the rights to install and use Ramet");
  const names = listed(
    missing.map(
      ({ verb, resource, subresource }) => `${verb} ${resource}${subresource === undefined ? "" : `/${subresource}`}`,
    ),
  );
  const purposes = [...new Set(missing.map(({ purpose }) => purpose))].join(" and ");
  return check.warning(
    `You lack rights to ${purposes}: ${names}`,
    `Ask an administrator for them if you need them in ${namespace}`,
  );
}
