import { unsupportedRoutes } from "../../routes/route.ts";

/** Routes of E2B's API that Ramet does not have, by what to do instead. */
export const unsupported = unsupportedRoutes({
  "Metrics of teams are not supported: read those of the servers in Prometheus's format": [
    "GET /teams/:teamID/metrics",
    "GET /teams/:teamID/metrics/max",
  ],
  "Builds of Dockerfiles by earlier command lines are not supported: use Template.build of the SDKs": [
    "POST /templates",
    "POST /v2/templates",
    "POST /templates/:templateID",
    "POST /templates/:templateID/builds/:buildID",
  ],
  "Default templates are not supported: list all templates with /v2/templates": ["GET /default-templates"],
  "This view of tags is not supported: list all tags with /templates/{templateID}/tags": [
    "GET /templates/:templateID/tags/exists",
    "GET /templates/:templateID/tags/count",
    "GET /templates/:templateID/tags/groups",
    "GET /templates/:templateID/tags/:tag/assignments",
  ],
  "Volumes are not supported: declare PersistentVolumeClaims in the SandboxTemplate": [
    "GET /volumes",
    "POST /volumes",
    "GET /volumes/:volumeID",
    "DELETE /volumes/:volumeID",
  ],
  "Nodes are not supported: list them with `kubectl get nodes`": [
    "GET /nodes",
    "GET /nodes/:nodeID",
    "POST /nodes/:nodeID",
  ],
  "Keys cannot be managed with a key: use `ramet key create`, `rotate` and `revoke`": [
    "GET /api-keys",
    "POST /api-keys",
    "PATCH /api-keys/:apiKeyID",
    "DELETE /api-keys/:apiKeyID",
    "POST /access-tokens",
    "DELETE /access-tokens/:accessTokenID",
  ],
  "The administration of teams is not supported: a team is a namespace of Kubernetes": [
    "GET /admin/sandboxes/running-counts",
    "POST /admin/teams/:teamID/sandboxes/kill",
    "POST /admin/teams/:teamID/builds/cancel",
    "POST /admin/teams/:teamID/api-keys",
    "DELETE /admin/teams/:teamID/api-keys/:apiKeyID",
  ],
});
