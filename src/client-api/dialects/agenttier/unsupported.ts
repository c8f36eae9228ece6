import { unsupportedRoute } from "../../routes/common-routes.ts";
import type { Method } from "../../routes/route.ts";
import type { AgentTierRoute } from "./call.ts";

const backups = "Backups are not supported: use `ramet checkpoint create` or a NamedSnapshot";
const bulk = "Bulk requests are not supported: send one request for each sandbox";
const sharing = "Sharing is not supported: give each user a key of the namespace";
const templates = "Templates cannot be changed with a key: declare SandboxTemplates with kubectl or Pulumi";
const keys = "Keys cannot be managed with a key: use `ramet key create`, `rotate` and `revoke`";
const pools = "Warm pools cannot be changed with a key: declare SandboxSets with kubectl or Pulumi";
const policies = "Policies cannot be managed with a key: set quotas and limits of the namespace";
const administration = "The administration of a cluster is not supported: use kubectl";
const webhooks = "Webhooks are not supported: watch the Sandboxes";

/** Routes of AgentTier's API that Ramet does not have, and what to do instead. */
const unsupported: readonly (readonly [methods: readonly Method[], path: string, why: string])[] = [
  [["PATCH"], "/sandboxes/:id", "Changes of a sandbox are not supported: change the Sandbox with kubectl"],
  [["POST"], "/sandboxes/bulk", bulk],
  [["POST"], "/sandboxes/bulk-action", bulk],
  [["GET", "POST"], "/sandboxes/:id/backups", backups],
  [["POST"], "/sandboxes/:id/backups/:snapshot/restore", backups],
  [["DELETE"], "/sandboxes/:id/backups/:snapshot", backups],
  [["GET", "POST"], "/sandboxes/:id/share", sharing],
  [["DELETE"], "/sandboxes/:id/share/:user", sharing],
  [["POST"], "/sandboxes/:id/share-links", sharing],
  [["POST"], "/templates", templates],
  [["PUT", "DELETE"], "/templates/:name", templates],
  [["GET", "PUT"], "/user/preferences", "Preferences are not supported"],
  [["GET", "POST"], "/user/api-keys", keys],
  [["DELETE"], "/user/api-keys/:key", keys],
  [["GET"], "/warmpool/status", pools],
  [["PUT"], "/warmpool/config", pools],
  [["GET", "POST", "PUT", "DELETE"], "/governance/*", policies],
  [["GET", "PUT"], "/cluster/*", administration],
  [["GET"], "/audit/events", administration],
  [["GET"], "/analytics/*", administration],
  [["GET"], "/admin/*", administration],
  [["GET", "POST"], "/webhooks", webhooks],
  [["GET", "PUT", "PATCH", "DELETE"], "/webhooks/*", webhooks],
];

export const unsupportedRoutes: readonly AgentTierRoute[] = unsupported.flatMap(([methods, path, why]) =>
  methods.map((method) => unsupportedRoute(method, path, why)),
);
