import { group } from "../schema/kind.ts";

const field = "object.?spec.?volumeImport";

/**
 * The admission policy for imports of volumes. Controllers create the contents with their own rights, so the rights of the user must be
 * checked while that user is known. It applies in all namespaces. The controllers compare the installed policy with this one before they
 * honour an import.
 */
export const importGuard = {
  name: "ramet-volume-imports",
  apiGroup: group,
  operations: ["CREATE", "UPDATE"],
  resources: ["checkpoints"],
  conditions: [
    {
      name: "import-requested",
      expression: `${field}.hasValue() && (oldObject == null || ${field} != oldObject.?spec.?volumeImport)`,
    },
  ],
  validations: [
    {
      expression: `authorizer.group("${group}").resource("checkpoints").namespace(request.namespace).check("import").allowed()`,
      message:
        "spec.volumeImport names snapshots of other namespaces or clusters: get the right to import checkpoints (the verb import) in this namespace",
    },
  ],
};
