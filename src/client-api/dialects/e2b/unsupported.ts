import type { Method } from "../../routes/route.ts";
import { unsupportedRoute } from "../../routes/common-routes.ts";
import type { E2bRoute } from "./call.ts";

/** Routes of E2B's API that Ramet does not have, and what to do instead. */
const unsupported: readonly (readonly [method: Method, path: string, why: string])[] = [
  [
    "GET",
    "/teams/:teamID/metrics",
    "Metrics of teams are not supported: read those of the servers in Prometheus's format",
  ],
  [
    "GET",
    "/teams/:teamID/metrics/max",
    "Metrics of teams are not supported: read those of the servers in Prometheus's format",
  ],
  ["POST", "/templates", earlierBuilds()],
  ["POST", "/v2/templates", earlierBuilds()],
  ["POST", "/templates/:templateID", earlierBuilds()],
  ["POST", "/templates/:templateID/builds/:buildID", earlierBuilds()],
  ["GET", "/default-templates", "Default templates are not supported: list all templates with /v2/templates"],
  ["GET", "/templates/:templateID/tags/exists", tagDetails()],
  ["GET", "/templates/:templateID/tags/count", tagDetails()],
  ["GET", "/templates/:templateID/tags/groups", tagDetails()],
  ["GET", "/templates/:templateID/tags/:tag/assignments", tagDetails()],
  ["GET", "/volumes", volumes()],
  ["POST", "/volumes", volumes()],
  ["GET", "/volumes/:volumeID", volumes()],
  ["DELETE", "/volumes/:volumeID", volumes()],
  ["GET", "/nodes", nodes()],
  ["GET", "/nodes/:nodeID", nodes()],
  ["POST", "/nodes/:nodeID", nodes()],
  ["GET", "/api-keys", keys()],
  ["POST", "/api-keys", keys()],
  ["PATCH", "/api-keys/:apiKeyID", keys()],
  ["DELETE", "/api-keys/:apiKeyID", keys()],
  ["POST", "/access-tokens", keys()],
  ["DELETE", "/access-tokens/:accessTokenID", keys()],
  ["GET", "/admin/sandboxes/running-counts", administration()],
  ["POST", "/admin/teams/:teamID/sandboxes/kill", administration()],
  ["POST", "/admin/teams/:teamID/builds/cancel", administration()],
  ["POST", "/admin/teams/:teamID/api-keys", administration()],
  ["DELETE", "/admin/teams/:teamID/api-keys/:apiKeyID", administration()],
];

export const unsupportedRoutes: readonly E2bRoute[] = unsupported.map(([method, path, why]) =>
  unsupportedRoute(method, path, why),
);

function earlierBuilds(): string {
  return "Builds of Dockerfiles by earlier command lines are not supported: use Template.build of the SDKs";
}

function tagDetails(): string {
  return "This view of tags is not supported: list all tags with /templates/{templateID}/tags";
}

function volumes(): string {
  return "Volumes are not supported: declare PersistentVolumeClaims in the SandboxTemplate";
}

function nodes(): string {
  return "Nodes are not supported: list them with `kubectl get nodes`";
}

function keys(): string {
  return "Keys cannot be managed with a key: use `ramet key create`, `rotate` and `revoke`";
}

function administration(): string {
  return "The administration of teams is not supported: a team is a namespace of Kubernetes";
}
