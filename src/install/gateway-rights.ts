import { gatewayKeySecret } from "../api/names/system-names.ts";
import type { Right } from "./rights.ts";

/** Of gateways, in every namespace. */
export const gatewayClusterRights: readonly Right[] = [
  {
    why: "where a sandbox is, and whether it is ready, is in its status",
    apiGroups: ["agents.kruise.io"],
    resources: ["sandboxes"],
    verbs: ["get", "list", "watch"],
  },
  {
    why: "who somebody is, the API server knows by their token",
    apiGroups: ["authentication.k8s.io"],
    resources: ["tokenreviews"],
    verbs: ["create"],
  },
  {
    why: "whether they may reach a sandbox, the API server knows too",
    apiGroups: ["authorization.k8s.io"],
    resources: ["subjectaccessreviews"],
    verbs: ["create"],
  },
];

/** Of gateways, in `ramet-system`. */
export const gatewaySystemRights: readonly Right[] = [
  {
    why: "cells open ports for whoever has this key, which opens nothing else",
    apiGroups: [""],
    resources: ["secrets"],
    resourceNames: [gatewayKeySecret],
    verbs: ["get"],
  },
];
